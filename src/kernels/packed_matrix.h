#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace gpt {

// A weight matrix [out,in] in the memory layout that is fastest for matrix products on one instruction set.
// The scalar reference stores plain rows. The dtype of a packed matrix is the dtype of the product:
//   f32, bf16, f16  both operands are rounded to this dtype; sums are fp32
//   q8_0, q4_0      ggml's quantization blocks of 32 along `in` (kernels/quant.h); the other operand is
//                   quantized to int8, 32 elements at a time; block products are exact integers
// For a given instruction set and dtype, the bits of a row of the product do not depend on the number of
// rows.
struct PackedMatrix {
  void* data = nullptr;  // 64-byte aligned
  DType dtype = DType::f32;
  int64_t out = 0, in = 0;
  bool transposed = false;  // packed for dy w instead of x w^T

  explicit operator bool() const { return data != nullptr; }
};

}  // namespace gpt
