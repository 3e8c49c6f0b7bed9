#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace gpt {

// A weight matrix [out,in] in the layout that the products of one instruction set read fastest; the
// reference keeps plain rows. Its type is that of the product:
//   f32, bf16, f16  both operands are rounded to it, sums are fp32
//   q8_0, q4_0      ggml's blocks of 32 along `in` (kernels/quant.h); the other operand is quantised to
//                   int8, 32 elements at a time, block products are exact integers
// For one instruction set and type the bits of a product do not depend on how many rows it has.
struct PackedMatrix {
  void* data = nullptr;  // 64-byte aligned
  DType dtype = DType::f32;
  int64_t out = 0, in = 0;
  bool transposed = false;  // for dy w instead of x w^T

  explicit operator bool() const { return data != nullptr; }
};

}  // namespace gpt
