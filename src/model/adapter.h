#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/param_table.h"
#include "tensor/buffer.h"

namespace gpt {

// A pair of low-rank matrices A [r,in] and B [out,r] that changes the model parameters `first` to `last`.
// Several parameters share one pair if they form one matrix in the model's files, such as a fused q|k|v
// matrix. These parameters have the same input, and their outputs are concatenated.
struct LowRank {
  int first, last;
  int64_t rank;
  double scale;
  int a = -1;  // id of A in the adapter's table; B has the next id
};

// A low-rank adapter (LoRA, Hu et al. 2021). An adapter contains matrices A and B for some weight matrices W
// [out,in] of the model's layers. With the adapter, a layer computes y = x W^T + scale (x A^T) B^T. The
// adapter has its own parameter table. To train an adapter, create a Model whose parameter table ends with
// the adapter's parameters, and freeze all other parameters. Adapter parameters are fp32, or fp64 if the
// activations are fp64.
struct Adapter {
  // Creates an adapter that initially has no effect, because B is zero. A is initialized as in PEFT and
  // torch.nn.Linear. dropout: dropout probability for the input of A in training. Throws invalid_argument if
  // a rank is out of range.
  Adapter(const ParamTable& model, std::vector<LowRank> products, double dropout = 0);

  // Returns the low-rank matrices that change a model parameter, or null if there are none.
  const LowRank* find(int weight) const {
    const int at = by_weight_[static_cast<size_t>(weight)];
    return at < 0 ? nullptr : &products[static_cast<size_t>(at)];
  }
  const TensorView& a(const LowRank& p) const { return weights[static_cast<size_t>(p.a)]; }
  const TensorView& b(const LowRank& p) const { return weights[static_cast<size_t>(p.a) + 1]; }
  // Allocates zero-initialized memory for the weights of the adapter.
  void allocate(DType dtype = DType::f32, Device* device = nullptr);

  std::vector<LowRank> products;  // sorted as in the model's table
  int64_t rank = 0;               // largest rank of all products
  double dropout;
  ParamTable table;
  std::vector<TensorView> weights;  // indexed by id in `table`; set by the owner of the memory

 private:
  std::vector<int> by_weight_;  // maps ids of the model's table to indices in `products`; -1: none
  std::vector<Buffer> memory_;
};

// An adapter and its weight in a sum of adapters.
struct WeightedAdapter {
  std::shared_ptr<const Adapter> adapter;
  double weight = 1;
};
// Returns one adapter that is equivalent to the weighted sum of several adapters. The result stacks the A
// matrices by rows and the B matrices by columns. Throws Error if a matrix is separate in one adapter and
// part of a fused matrix in another adapter.
std::shared_ptr<const Adapter> sum_of_adapters(const ParamTable& model,
                                               std::span<const WeightedAdapter> adapters,
                                               Device* device = nullptr);

// A range of batch rows and the adapter that applies to them. The result of a row is bit-identical regardless
// of the other rows in the batch.
struct RowsAdapter {
  int64_t begin, end;
  const Adapter* adapter;
};

}  // namespace gpt
