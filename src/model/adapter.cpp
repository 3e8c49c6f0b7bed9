#include "model/adapter.h"

#include <algorithm>
#include <cmath>

namespace gpt {

Adapter::Adapter(const ParamTable& model, std::vector<Role> roles, int64_t r, double s)
    : rank(r), scale(s), table(std::vector<ParamSpec>{}), first_(static_cast<size_t>(model.count()), -1) {
  std::vector<ParamSpec> specs;
  for (int id = 0; id < model.model_count(); ++id) {
    const ParamSpec& w = model[id];
    if (w.layer < 0 || w.shape.size() != 2 || std::ranges::find(roles, w.role) == roles.end()) continue;
    const int64_t out = w.shape[0], in = w.shape[1];
    if (rank < 1 || rank > std::min(out, in))
      fail_parameter("rank", "expected 1 to {} for {}, found {}", std::min(out, in), w.name, rank);
    first_[static_cast<size_t>(id)] = static_cast<int>(specs.size());
    ParamSpec half = w;  // its role, layer and component
    half.glued = false;
    half.trainable = true;
    half.name = w.name + ".lora_a";
    half.shape = {rank, in};
    half.init = {InitRule::Kind::uniform, 1 / std::sqrt(static_cast<double>(in))};
    specs.push_back(half);
    half.name = w.name + ".lora_b";
    half.shape = {out, rank};
    half.init = {InitRule::Kind::zeros, 0};
    specs.push_back(half);
  }
  table = ParamTable(std::move(specs));
}

}  // namespace gpt
