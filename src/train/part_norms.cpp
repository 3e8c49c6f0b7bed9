#include "train/part_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

struct Sums {
  std::string part;
  double grad = 0, update = 0, weight = 0;  // of squares
};

std::string part_name(const ParamSpec& spec) {
  if (spec.layer >= 0) return fmt::format("block {}", spec.layer);
  switch (spec.component) {
    case Component::token_embedding:
      return "token embedding";
    case Component::position_embedding:
      return "position embedding";
    case Component::head:
      return "head";
    default:
      return "final norm";
  }
}

// What AdamW does to a parameter at step t, from its moments after that step.
void add_tensor(Sums& sums, const TensorView& w, const TensorView& g, const TensorView& m,
                const TensorView& v, const AdamWSettings& s, double lr, double decay, int64_t t) {
  const auto correct1 = static_cast<float>(1 / (1 - std::pow(s.beta1, t)));
  const auto correct2 = static_cast<float>(1 / (1 - std::pow(s.beta2, t)));
  const auto eps = static_cast<float>(s.eps), rate = static_cast<float>(lr), pull = static_cast<float>(decay);
  const float *pw = w.as<float>(), *pg = g.as<float>(), *pm = m.as<float>(), *pv = v.as<float>();
  constexpr int64_t kRun = 1024;  // summed in fp32, the runs in fp64
  for (int64_t begin = 0; begin < w.size(); begin += kRun) {
    float grad = 0, update = 0, weight = 0;
    for (int64_t i = begin; i < std::min(begin + kRun, w.size()); ++i) {
      const float step = rate * (pm[i] * correct1 / (std::sqrt(pv[i] * correct2) + eps) + pull * pw[i]);
      grad += pg[i] * pg[i];
      update += step * step;
      weight += pw[i] * pw[i];
    }
    sums.grad += double{grad};
    sums.update += double{update};
    sums.weight += double{weight};
  }
}

}  // namespace

MetricRecord part_norms(const ParamTable& table, const ParamBuffer& weights, const ParamBuffer& grads,
                        const Optimizer& optimizer, double lr, double loss_scale, int64_t t) {
  std::vector<Sums> all;
  const AdamWSettings& settings = optimizer.settings();
  for (int id = 0; id < table.count(); ++id) {
    const std::string part = part_name(table[id]);
    auto sums = std::find_if(all.begin(), all.end(), [&](const Sums& s) { return s.part == part; });
    if (sums == all.end()) sums = all.insert(all.end(), {.part = part});
    add_tensor(*sums, weights[id], grads[id], optimizer.m()[id], optimizer.v()[id], settings, lr,
               table[id].decay ? settings.weight_decay : 0, t);
  }
  MetricRecord record;
  for (const Sums& s : all)
    record.emplace_back("grad_norm/" + s.part, std::sqrt(s.grad) / loss_scale);
  for (const Sums& s : all) {
    if (s.weight > 0) record.emplace_back("update_ratio/" + s.part, std::sqrt(s.update / s.weight));
  }
  return record;
}

}  // namespace gpt
