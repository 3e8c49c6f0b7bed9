#pragma once

#include <vector>

#include "model/param_table.h"

namespace gpt {

// A low-rank adapter (LoRA, Hu et al. 2021): for some matrices W [out,in] of a model's blocks A [r,in] and
// B [out,r], so that y = x W^T + scale (x A^T) B^T. Its parameters are a table of their own; to train them, a
// Model is made with them behind its own, which are frozen. They are fp32 (or fp64, with such activations).
struct Adapter {
  // For the matrices with these roles. It begins as nothing: B is zero.
  Adapter(const ParamTable& model, std::vector<Role> roles, int64_t rank, double scale);

  // The id of the A of a parameter of the model, which its B follows; -1: it has none.
  int find(int weight) const { return first_[static_cast<size_t>(weight)]; }

  int64_t rank;
  double scale;
  ParamTable table;
  std::vector<TensorView> weights;  // by id in `table`; set by whoever owns the memory

 private:
  std::vector<int> first_;  // by id in the model's table
};

// The rows of a batch that have an adapter. The bits of a row depend on no other row's.
struct RowsAdapter {
  int64_t begin, end;
  const Adapter* adapter;
};

}  // namespace gpt
