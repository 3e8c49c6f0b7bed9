#pragma once

#include <cstdint>

#include "tensor/half.h"

namespace gpt {

// Quantised matrices in ggml's public block formats. A row of n elements, a multiple of block_size(), is its
// blocks one after another; rows follow each other without gaps.
//
// Products y = x w^T with such weights take 32 elements at a time, the types of super-blocks of 256 too:
//   - every 32 elements of a row of x become int8: d_x = max|x| / 127 in fp32, q = x * (1 / d_x) rounded
//     to nearest, ties to even. A block whose d_x would be subnormal counts as zero, one with a NaN or an
//     infinity as NaN.
//   - f[b] = sum of q_w q_x over block b, an exact integer (Q6_K: each half times its scale).
//   - Rows of blocks as they are: 16 partial sums, t[c] = for b = c, c + 16, ... : fma(d_w[b] d_x[b], f[b],
//   t[c]),
//     then, where the type has a minimum, fma(m_w[b], d_x[b] * (sum of q_x in block b), t[c]); and
//     y = ((t[0] + t[1]) + t[2]) ... + t[15].
//   - A PackedMatrix: one sum, y = for b in order: fma(d_w[b] d_x[b], f[b], y).
//   - All of this in fp32. The bias is added last.
// Each element of y is made by operations that no instruction set may reorder, so its bits depend neither on
// the other rows nor on the kernel that computes it.
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

// w[j] = d q[j] + m; element j has the low half of byte j, element 16 + j the high one, in the next too
struct BlockQ4_1 {
  f16 d, m;
  uint8_t q[kQuantBlock / 2];
};
static_assert(sizeof(BlockQ4_1) == 20);

// w[j] = d (q[j] - 16); bit j of `high` is the fifth bit of q[j]
struct BlockQ5_0 {
  f16 d;
  uint8_t high[4];
  uint8_t q[kQuantBlock / 2];
};
static_assert(sizeof(BlockQ5_0) == 22);

// w[j] = d q[j] + m
struct BlockQ5_1 {
  f16 d, m;
  uint8_t high[4];
  uint8_t q[kQuantBlock / 2];
};
static_assert(sizeof(BlockQ5_1) == 24);

// w[j] = d kIq4Numbers[q[j]], which lie closer near zero. The array is not inline: that would be a weak
// symbol.
constexpr int8_t kIq4Numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
struct BlockIq4 {
  f16 d;
  uint8_t q[kQuantBlock / 2];
};
static_assert(sizeof(BlockIq4) == 18);

// Super-blocks. Of eight blocks of 32, block b has w[j] = (d s[b]) q[j] - (min m[b]). `scales` are 6 bits
// each: s[b] and m[b] of b < 4 are the low bits of bytes b and 4 + b; of b >= 4 the low and the high half of
// byte 4 + b, and above them the two high bits of bytes b - 4 and b. Two blocks share 32 bytes of q: the
// first has the low halves.
inline constexpr int64_t kSuperBlock = 256;
struct BlockQ4K {
  f16 d, min;
  uint8_t scales[12];
  uint8_t q[kSuperBlock / 2];
};
static_assert(sizeof(BlockQ4K) == 144);

// The same; bit b of high[j] is the fifth bit of element j of block b.
struct BlockQ5K {
  f16 d, min;
  uint8_t scales[12];
  uint8_t high[kSuperBlock / 8];
  uint8_t q[kSuperBlock / 2];
};
static_assert(sizeof(BlockQ5K) == 176);

// w[j] = (d scales[j / 16]) (q[j] - 32). Each half of the super-block has four blocks of 32: their low 4 bits
// are the low halves of bytes 0 to 31 and 32 to 63, then the high halves of these; bits 2 b of `high` are the
// two others of block b.
struct BlockQ6K {
  uint8_t low[kSuperBlock / 2];
  uint8_t high[kSuperBlock / 4];
  int8_t scales[kSuperBlock / 16];
  f16 d;
};
static_assert(sizeof(BlockQ6K) == 210);

// One block, rounded as ggml's reference does. Q8_0: d = max|x| / 127, ties away from zero; Q4_0: d = the
// value of largest magnitude / -8, q = min(15, floor(x / d + 8.5)). A block with a NaN or an infinity
// becomes NaN, one whose d is subnormal in fp32 zero.
void quantize_block(const float* x, BlockQ8& block);
void quantize_block(const float* x, BlockQ4& block);

// 32 elements of any of the types: w[j] = (d sub[j / 16]) q[j] + m.
struct UnpackedBlock {
  float d, m;
  int32_t sub[2];
  int8_t q[kQuantBlock];
};
void unpack_block(DType dtype, const void* row, int64_t b, UnpackedBlock& block);

void dequantize_block(DType dtype, const void* row, int64_t b, float* x);  // 32 elements

// Whole rows. IQ4_NL and the K types are fitted by a small search for least squared error; like the others,
// blocks with a NaN or an infinity become NaN.
void quantize_row(DType dtype, const float* x, int64_t n, void* row);
void dequantize_row(DType dtype, const void* row, int64_t n, float* x);

}  // namespace gpt
