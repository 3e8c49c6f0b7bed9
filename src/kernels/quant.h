#pragma once

#include <cstdint>

#include "tensor/half.h"

namespace gpt {

// Quantized matrices in ggml's public block formats. A row of n elements consists of consecutive quantization
// blocks, and n is a multiple of block_size(). Rows follow each other without gaps.
//
// Products y = x w^T process 32 elements at a time, also for dtypes with super-blocks of 256:
//   - Every 32 elements of a row of x are quantized to int8: d_x = max|x| / 127 in fp32, q_x = x * (1 / d_x)
//     rounded to nearest, ties to even. A block whose d_x would be subnormal counts as zero. A block that
//     contains a NaN or an infinity counts as NaN.
//   - f[b] = sum of q_w q_x over block b, an exact integer (in Q6_K, the sum of each half times its scale).
//   - Quantized rows (`w`) use 16 partial sums. Block b is added to t[c] with c = b % 16, in order of b:
//     t[c] = fma(d_w[b] d_x[b], f[b], t[c]), and if the dtype has a minimum, then also
//     t[c] = fma(m_w[b], d_x[b] * (sum of q_x in block b), t[c]). Finally
//     y = ((t[0] + t[1]) + t[2]) ... + t[15].
//   - PackedMatrix uses a single sum: y = fma(d_w[b] d_x[b], f[b], y) for every block b, in order.
//   - All of this is computed in fp32. The bias is added last.
// No instruction set may reorder these operations. The bits of an element of y therefore depend neither on
// other rows nor on the kernel that computes it.
inline constexpr int64_t kQuantBlock = 32;

// w[j] = d q[j]
struct BlockQ8 {
  f16 d;
  int8_t q[kQuantBlock];
};
static_assert(sizeof(BlockQ8) == 34);

// w[j] = d (q[j] - 8). For j < 16, q[j] is stored in the low 4 bits of byte j; for j >= 16, in the high 4
// bits of byte j - 16.
struct BlockQ4 {
  f16 d;
  uint8_t q[kQuantBlock / 2];
};
static_assert(sizeof(BlockQ4) == 18);

// w[j] = d q[j] + m. Byte j stores element j in its low 4 bits and element 16 + j in its high 4 bits. The
// formats below use the same order.
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

// w[j] = d kIq4Numbers[q[j]]. The values of the table are denser near zero. The array is not declared inline,
// because an inline variable would become a weak symbol.
constexpr int8_t kIq4Numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
struct BlockIq4 {
  f16 d;
  uint8_t q[kQuantBlock / 2];
};
static_assert(sizeof(BlockIq4) == 18);

// A super-block of eight blocks of 32 elements. In block b, w[j] = (d s[b]) q[j] - (min m[b]). `scales` packs
// s and m in 6 bits each. For b < 4, s[b] and m[b] are the low 6 bits of bytes b and 4 + b. For b >= 4, byte
// 4 + b stores the low 4 bits of s[b] in its low half and the low 4 bits of m[b] in its high half. The high 2
// bits of s[b] are the high 2 bits of byte b - 4, and the high 2 bits of m[b] are the high 2 bits of byte b.
// Two consecutive blocks share 32 bytes of q: the first block uses the low halves.
inline constexpr int64_t kSuperBlock = 256;
struct BlockQ4K {
  f16 d, min;
  uint8_t scales[12];
  uint8_t q[kSuperBlock / 2];
};
static_assert(sizeof(BlockQ4K) == 144);

// Same layout as BlockQ4K. In addition, bit b of high[j] is the fifth bit of element j of block b.
struct BlockQ5K {
  f16 d, min;
  uint8_t scales[12];
  uint8_t high[kSuperBlock / 8];
  uint8_t q[kSuperBlock / 2];
};
static_assert(sizeof(BlockQ5K) == 176);

// w[j] = (d scales[j / 16]) (q[j] - 32). Each half of the super-block has 64 bytes of `low` for four blocks
// of 32 elements. The low 4 bits of the four blocks are, in order: the low halves of bytes 0 to 31, the low
// halves of bytes 32 to 63, the high halves of bytes 0 to 31, and the high halves of bytes 32 to 63. The high
// 2 bits of block b are bits 2 b and 2 b + 1 of the bytes of `high`.
struct BlockQ6K {
  uint8_t low[kSuperBlock / 2];
  uint8_t high[kSuperBlock / 4];
  int8_t scales[kSuperBlock / 16];
  f16 d;
};
static_assert(sizeof(BlockQ6K) == 210);

// Quantize one block, with the rounding of ggml's reference. Q8_0: d = max|x| / 127, ties are rounded away
// from zero. Q4_0: d is the element of largest magnitude divided by -8, and q = min(15, floor(x / d + 8.5)).
// A block that contains a NaN or an infinity becomes NaN. A block whose d is subnormal in fp32 becomes zero.
void quantize_block(const float* x, BlockQ8& block);
void quantize_block(const float* x, BlockQ4& block);

// A block of 32 elements, unpacked to a form that all quantized dtypes share: w[j] = (d sub[j / 16]) q[j] +
// m.
struct UnpackedBlock {
  float d, m;
  int32_t sub[2];
  int8_t q[kQuantBlock];
};
void unpack_block(DType dtype, const void* row, int64_t b, UnpackedBlock& block);

void dequantize_block(DType dtype, const void* row, int64_t b, float* x);  // writes 32 elements

// Quantize and dequantize whole rows. For IQ4_NL and the K dtypes, quantize_row searches for the scales with
// the smallest squared error. Blocks that contain a NaN or an infinity become NaN.
void quantize_row(DType dtype, const float* x, int64_t n, void* row);
void dequantize_row(DType dtype, const void* row, int64_t n, float* x);

}  // namespace gpt
