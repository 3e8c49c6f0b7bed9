#pragma once

#include <optional>

#include "kernels/kernel_table.h"

namespace gpt::gemm {

// Y[m,n] = A[m,k] B[k,n], then in this order: (+ Y with accumulate) (+ bias), and either
//   pre = Y, Y = act(Y)     of the forward pass, or
//   Y = Y * act'(pre)       of the backward pass.
// Activations are fp32, bf16 or fp16. B is packed, or a plain matrix [n,k], or [k,n] with `b_transposed`;
// a plain one may be stored transposed.
struct RowProduct {
  DType compute;
  TensorView y, a;
  const PackedMatrix* packed = nullptr;
  TensorView b = {};
  bool b_transposed = false;
  const float* bias = nullptr;
  bool accumulate = false;
  std::optional<Act> act = {};
  bool backward = false;
  TensorView pre = {};
};

// The bits of a row of Y depend on that row of A, on B and on k alone. Uses scratch of each thread.
void multiply_rows(const ExecContext& ctx, Isa isa, const RowProduct& p);
ScratchNeed row_scratch(int64_t m, int64_t n, int64_t k);

}  // namespace gpt::gemm
