#pragma once

#include <cstdint>

#include "tensor/half.h"

namespace gpt {

// Quantised matrices in ggml's public block formats. A row of n elements, a multiple of 32, is n / 32
// blocks one after another; rows follow each other without gaps.
//
// A product y = x w^T with such weights is defined thus (cpu/ref/quant.cpp):
//   - every 32 elements of a row of x become int8: d_x = max|x| / 127 in fp32, q = x * (1 / d_x) rounded
//     to nearest, ties to even. A block whose d_x would be subnormal counts as zero, one with a NaN or an
//     infinity as NaN.
//   - y = sum over blocks b, in order, of fma(d_w[b] * d_x[b], sum of q_w q_x in block b, y) in fp32; the
//     inner sums are exact integers. The bias is added last.
// Each element of y is one chain of operations that no instruction set may reorder, so its bits depend
// neither on the other rows nor on the kernel that computes it.
inline constexpr int64_t kQuantBlock = 32;

// w[j] = d q[j]
struct BlockQ8 {
  f16 d;
  int8_t q[kQuantBlock];
};
static_assert(sizeof(BlockQ8) == 34);

// w[j] = d (q[j] - 8): for j < 16, q[j] is the low half of byte j, for j >= 16 the high half of byte j - 16
struct BlockQ4 {
  f16 d;
  uint8_t q[kQuantBlock / 2];
};
static_assert(sizeof(BlockQ4) == 18);

// One block, rounded as ggml's reference does. Q8_0: d = max|x| / 127, ties away from zero; Q4_0: d = the
// value of largest magnitude / -8, q = min(15, floor(x / d + 8.5)). A block with a NaN or an infinity
// becomes NaN, one whose d is subnormal in fp32 zero.
void quantize_block(const float* x, BlockQ8& block);
void quantize_block(const float* x, BlockQ4& block);

void quantize_row(DType dtype, const float* x, int64_t n, void* row);
void dequantize_row(DType dtype, const void* row, int64_t n, float* x);

}  // namespace gpt
