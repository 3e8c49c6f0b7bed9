#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/param_table.h"
#include "tensor/buffer.h"

namespace gpt {

// A [r,in] and B [out,r] of a matrix of the model, or of several with the same input whose outputs stand side
// by side, which are one matrix in the family's files: the parameters `first` to `last`.
struct LowRank {
  int first, last;
  int64_t rank;
  double scale;
  int a = -1;  // the id of A in the adapter's table, which B follows
};

// A low-rank adapter (LoRA, Hu et al. 2021): for some matrices W [out,in] of a model's blocks A and B, so
// that y = x W^T + scale (x A^T) B^T. Its parameters are a table of their own; to train them, a Model is made
// with them behind its own, which are frozen. They are fp32 (or fp64, with such activations).
struct Adapter {
  // It begins as nothing: B is zero; A as PEFT and torch.nn.Linear have it. dropout: of what A reads, in
  // training. Throws invalid_argument for a rank that does not fit.
  Adapter(const ParamTable& model, std::vector<LowRank> products, double dropout = 0);

  // What a parameter of the model has, or null.
  const LowRank* find(int weight) const {
    const int at = by_weight_[static_cast<size_t>(weight)];
    return at < 0 ? nullptr : &products[static_cast<size_t>(at)];
  }
  const TensorView& a(const LowRank& p) const { return weights[static_cast<size_t>(p.a)]; }
  const TensorView& b(const LowRank& p) const { return weights[static_cast<size_t>(p.a) + 1]; }
  // Memory of its own for its weights, zero.
  void allocate(DType dtype = DType::f32, Device* device = nullptr);

  std::vector<LowRank> products;  // in the order of the model's table
  int64_t rank = 0;               // the largest
  double dropout;
  ParamTable table;
  std::vector<TensorView> weights;  // by id in `table`; set by whoever owns the memory

 private:
  std::vector<int> by_weight_;  // by id in the model's table
  std::vector<Buffer> memory_;
};

// An adapter that does what several do together, each times its weight: their A below each other, their B
// side by side. Throws Error where one is for other groups of matrices than another.
struct WeightedAdapter {
  std::shared_ptr<const Adapter> adapter;
  double weight = 1;
};
std::shared_ptr<const Adapter> sum_of_adapters(const ParamTable& model,
                                               std::span<const WeightedAdapter> adapters,
                                               Device* device = nullptr);

// The rows of a batch that have an adapter. The bits of a row depend on no other row's.
struct RowsAdapter {
  int64_t begin, end;
  const Adapter* adapter;
};

}  // namespace gpt
