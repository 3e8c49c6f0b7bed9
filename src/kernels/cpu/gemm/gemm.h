#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"

namespace gpt::gemm {

// A matrix that somebody else owns, row-major, `ld` elements from row to row. With `transposed`, the
// operand is the transpose of what is stored.
struct Operand {
  const float* data;
  int64_t ld;
  bool transposed = false;

  // The part that starts at row i, column j of the operand.
  Operand at(int64_t i, int64_t j) const {
    return {transposed ? data + j * ld + i : data + i * ld + j, ld, transposed};
  }
};

// C[m,n] = A[m,k] B[k,n] (+ C with accumulate) (+ bias[n], added last). C overlaps neither operand.
struct Product {
  int64_t m, n, k;
  Operand a, b;
  float* c;
  int64_t ldc;
  const float* bias = nullptr;
  bool accumulate = false;
  bool may_split_k = false;  // into partial products, where C is too small for many threads
};

// Computes the product with the threads of ctx. The work is cut by the shape alone, so no bit depends on
// the thread count. Uses the scratch of ctx, as much as scratch_need() says: what covers a product covers
// all that are smaller in every size.
void multiply(const ExecContext& ctx, Isa isa, const Product& p);
ScratchNeed scratch_need(int64_t m, int64_t n, int64_t k);

}  // namespace gpt::gemm
