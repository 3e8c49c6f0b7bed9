#include "model/adapter.h"

#include <algorithm>
#include <cmath>

#include "base/ranges.h"
#include "tensor/device.h"

namespace gpt {

constexpr int64_t kMaxRank = 1 << 16;

Adapter::Adapter(const ParamTable& model, std::vector<LowRank> list, double p)
    : products(std::move(list)),
      dropout(p),
      table(std::vector<ParamSpec>{}),
      by_weight_(static_cast<size_t>(model.count()), -1) {
  std::vector<ParamSpec> specs;
  for (size_t i = 0; i < products.size(); ++i) {
    LowRank& product = products[i];
    const ParamSpec& w = model[product.first];
    int64_t out = 0;
    for (int id = product.first; id <= product.last; ++id) {
      out += model[id].shape[0];
      by_weight_[static_cast<size_t>(id)] = static_cast<int>(i);
    }
    const int64_t in = w.shape[1];
    if (product.rank < 1 || product.rank > kMaxRank)
      fail_parameter("lora_rank", "expected 1 to {}, found {} for {}", kMaxRank, product.rank, w.name);
    rank = std::max(rank, product.rank);
    product.a = static_cast<int>(specs.size());
    ParamSpec half = w;  // copies role, layer and component of w
    half.contiguous_with_previous = false;
    half.trainable = true;
    half.name = w.name + ".lora_a";
    half.shape = {product.rank, in};
    half.init = {InitRule::Kind::uniform, 1 / std::sqrt(static_cast<double>(in))};
    specs.push_back(half);
    half.name = w.name + ".lora_b";
    half.shape = {out, product.rank};
    half.init = {InitRule::Kind::zeros, 0};
    specs.push_back(half);
  }
  table = ParamTable(std::move(specs));
}

void Adapter::allocate(DType dtype, Device* device) {
  memory_.clear();
  weights.clear();
  for (const ParamSpec& spec : table.specs()) {
    memory_.emplace_back(static_cast<size_t>(spec.size()) * dtype_size(dtype), "an adapter", device);
    weights.push_back(memory_.back().view(0, dtype, spec.shape));
  }
}

namespace {

// Multiplies `from` by a factor and writes the result to `to`, starting at the given row and column.
void place(const TensorView& from, double factor, const TensorView& to, int64_t row, int64_t col) {
  const MappedView source(from, Access::read), target(to, Access::read_write);
  for (int64_t r = 0; r < from.rows(); ++r) {
    for (int64_t c = 0; c < from.cols(); ++c)
      target->row<float>(row + r)[col + c] = static_cast<float>(factor * source->row<float>(r)[c]);
  }
}

}  // namespace

std::shared_ptr<const Adapter> sum_of_adapters(const ParamTable& model,
                                               std::span<const WeightedAdapter> adapters, Device* device) {
  if (adapters.size() == 1 && adapters[0].weight == 1) return adapters[0].adapter;
  std::vector<LowRank> products;
  for (const WeightedAdapter& one : adapters) {
    for (const LowRank& p : one.adapter->products) {
      LowRank* same = find_by(products, &LowRank::first, p.first);
      if (same == nullptr) {
        products.push_back({p.first, p.last, p.rank, 1});
      } else if (same->last == p.last) {
        same->rank += p.rank;
      } else {
        fail(
            "these adapters cannot be combined: {} is a separate matrix in one adapter and part of a fused "
            "matrix in another",
            model[p.first].name);
      }
    }
  }
  std::ranges::sort(products, {}, &LowRank::first);
  auto sum = std::make_shared<Adapter>(model, std::move(products));
  sum->allocate(DType::f32, device);
  std::vector<int64_t> filled(sum->products.size());
  for (const WeightedAdapter& one : adapters) {
    for (const LowRank& p : one.adapter->products) {
      const LowRank& all = *sum->find(p.first);
      int64_t& at = filled[static_cast<size_t>(&all - sum->products.data())];
      place(one.adapter->a(p), 1, sum->a(all), at, 0);
      place(one.adapter->b(p), p.scale * one.weight, sum->b(all), 0, at);
      at += p.rank;
    }
  }
  return sum;
}

}  // namespace gpt
