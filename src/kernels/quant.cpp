#include "kernels/quant.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "kernels/quant_fit.h"

namespace gpt {
namespace {

// Rounds to the nearest integer, with halves rounded away from zero. |x| must be far below 2^23. The constant
// is the largest float below 1/2, so that values just below a half are not rounded up.
inline int round_away(float x) {
  return static_cast<int>(x + std::copysign(0.5f - 0x1p-25f, x));
}

// Returns the bits of |x|. As integers, these bits are ordered by magnitude, and NaN is above all other
// values.
inline int32_t magnitude_bits(float x) {
  return std::bit_cast<int32_t>(x) & 0x7fffffff;
}
int32_t largest_magnitude(const float* x) {
  int32_t largest = 0;
  for (int64_t j = 0; j < kQuantBlock; ++j)
    largest = std::max(largest, magnitude_bits(x[j]));
  return largest;
}

// The scale of a quantization block: d as stored, and the factor by which elements are multiplied before
// rounding. The factor is 0 if the block is stored as zeros, because its values are too small or because it
// contains a NaN or an infinity.
struct Scale {
  f16 d;
  float inverse;
};
Scale scale_of(float d) {
  if (!std::isfinite(d)) return {to_f16(std::numeric_limits<float>::quiet_NaN()), 0};
  if (std::abs(d) < FLT_MIN) return {to_f16(0), 0};
  return {to_f16(d), 1 / d};
}

}  // namespace

void quantize_block(const float* x, BlockQ8& block) {
  const Scale scale = scale_of(std::bit_cast<float>(largest_magnitude(x)) / 127);
  block.d = scale.d;
  for (int64_t j = 0; j < kQuantBlock; ++j)
    block.q[j] = static_cast<int8_t>(scale.inverse == 0 ? 0 : round_away(x[j] * scale.inverse));
}

void quantize_block(const float* x, BlockQ4& block) {
  const int32_t largest = largest_magnitude(x);
  const float* first = x;  // the first element of the largest magnitude
  while (magnitude_bits(*first) != largest)
    ++first;
  const Scale scale = scale_of(*first / -8);
  block.d = scale.d;
  // x / d is at least -8, so the sum is not negative and truncation rounds down.
  const auto quantized = [&](float value) {
    return scale.inverse == 0 ? 8 : std::min(15, static_cast<int>(value * scale.inverse + 8.5f));
  };
  for (int64_t j = 0; j < kQuantBlock / 2; ++j)
    block.q[j] = static_cast<uint8_t>(quantized(x[j]) | quantized(x[j + kQuantBlock / 2]) << 4);
}

namespace {

// Stores 32 values of five bits in the layout of Q5_0 and Q5_1.
template <class Block>
void store_five_bits(const int (&q)[kQuantBlock], Block& block) {
  uint32_t high = 0;
  for (int64_t j = 0; j < kQuantBlock; ++j)
    high |= static_cast<uint32_t>(q[j] >> 4) << j;
  std::memcpy(block.high, &high, sizeof high);
  for (int64_t j = 0; j < kQuantBlock / 2; ++j)
    block.q[j] = static_cast<uint8_t>((q[j] & 15) | (q[j + kQuantBlock / 2] & 15) << 4);
}

void quantize_block(const float* x, BlockQ5_0& block) {
  const int32_t largest = largest_magnitude(x);
  const float* first = x;
  while (magnitude_bits(*first) != largest)
    ++first;
  const Scale scale = scale_of(*first / -16);
  block.d = scale.d;
  int q[kQuantBlock];
  for (int64_t j = 0; j < kQuantBlock; ++j)
    q[j] = scale.inverse == 0 ? 16 : std::min(31, static_cast<int>(x[j] * scale.inverse + 16.5f));
  store_five_bits(q, block);
}

// Quantizes a block to `steps` equal steps between its minimum and its maximum. Sets d and m of the block; d
// is NaN if the block contains a NaN or an infinity.
template <class Block>
void quantize_between(const float* x, int steps, Block& block, int (&q)[kQuantBlock]) {
  const auto [least, most] = std::minmax_element(x, x + kQuantBlock);
  const bool finite = std::isfinite(std::bit_cast<float>(largest_magnitude(x)));
  const Scale scale = scale_of(finite ? (*most - *least) / static_cast<float>(steps) : INFINITY);
  block.d = scale.d;
  block.m = to_f16(finite ? *least : 0);
  for (int64_t j = 0; j < kQuantBlock; ++j)
    q[j] = scale.inverse == 0
               ? 0
               : std::min(steps, static_cast<int>(std::floor((x[j] - *least) * scale.inverse + 0.5f)));
}
void quantize_block(const float* x, BlockQ4_1& block) {
  int q[kQuantBlock];
  quantize_between(x, 15, block, q);
  for (int64_t j = 0; j < kQuantBlock / 2; ++j)
    block.q[j] = static_cast<uint8_t>(q[j] | q[j + kQuantBlock / 2] << 4);
}
void quantize_block(const float* x, BlockQ5_1& block) {
  int q[kQuantBlock];
  quantize_between(x, 31, block, q);
  store_five_bits(q, block);
}

template <class Block>
void quantize_blocks(const float* x, int64_t n, void* row) {
  constexpr int64_t kSize = sizeof(Block) >= sizeof(BlockQ4K) ? kSuperBlock : kQuantBlock;
  for (int64_t b = 0; b < n / kSize; ++b)
    quantize_block(x + b * kSize, static_cast<Block*>(row)[b]);
}

constexpr float kNoMinimum = -0.0f;  // adding -0 changes no value, not even a zero

void unpack(const BlockQ8& w, UnpackedBlock& u) {
  u.d = to_float(w.d);
  u.m = kNoMinimum;
  u.sub[0] = u.sub[1] = 1;
  static_assert(sizeof u.q == sizeof w.q);
  std::memcpy(u.q, w.q, sizeof u.q);  // g++ 12 would compile std::copy_n to a function call
}
// Unpacks 16 bytes that hold two 4-bit values each, and subtracts `zero` from every value.
void unpack_halves(const uint8_t* bytes, int zero, UnpackedBlock& u) {
  for (int64_t j = 0; j < kQuantBlock / 2; ++j) {
    u.q[j] = static_cast<int8_t>((bytes[j] & 15) - zero);
    u.q[j + kQuantBlock / 2] = static_cast<int8_t>((bytes[j] >> 4) - zero);
  }
}
void add_fifth_bits(const uint8_t (&bytes)[4], UnpackedBlock& u) {
  uint32_t high = 0;
  std::memcpy(&high, bytes, sizeof high);
  for (int64_t j = 0; j < kQuantBlock; ++j)
    u.q[j] = static_cast<int8_t>(u.q[j] + static_cast<int>(high >> j & 1) * 16);
}
void unpack(const BlockQ4& w, UnpackedBlock& u) {
  u = {.d = to_float(w.d), .m = kNoMinimum, .sub = {1, 1}, .q = {}};
  unpack_halves(w.q, 8, u);
}
void unpack(const BlockQ4_1& w, UnpackedBlock& u) {
  u = {.d = to_float(w.d), .m = to_float(w.m), .sub = {1, 1}, .q = {}};
  unpack_halves(w.q, 0, u);
}
void unpack(const BlockQ5_0& w, UnpackedBlock& u) {
  u = {.d = to_float(w.d), .m = kNoMinimum, .sub = {1, 1}, .q = {}};
  unpack_halves(w.q, 16, u);
  add_fifth_bits(w.high, u);
}
void unpack(const BlockQ5_1& w, UnpackedBlock& u) {
  u = {.d = to_float(w.d), .m = to_float(w.m), .sub = {1, 1}, .q = {}};
  unpack_halves(w.q, 0, u);
  add_fifth_bits(w.high, u);
}
void unpack(const BlockIq4& w, UnpackedBlock& u) {
  u = {.d = to_float(w.d), .m = kNoMinimum, .sub = {1, 1}, .q = {}};
  unpack_halves(w.q, 0, u);
  for (int8_t& q : u.q)
    q = kIq4Numbers[q];
}

// Unpacks block b of a super-block of Q4_K or Q5_K, without the fifth bits.
template <class Block>
void unpack_k(const Block& w, int64_t b, UnpackedBlock& u) {
  const uint8_t* s = w.scales;
  const int scale = b < 4 ? s[b] & 63 : (s[b + 4] & 15) | (s[b - 4] >> 6) << 4;
  const int min = b < 4 ? s[b + 4] & 63 : s[b + 4] >> 4 | (s[b] >> 6) << 4;
  u = {.d = to_float(w.d) * static_cast<float>(scale),
       .m = -(to_float(w.min) * static_cast<float>(min)),
       .sub = {1, 1},
       .q = {}};
  for (int64_t j = 0; j < kQuantBlock; ++j)
    u.q[j] = static_cast<int8_t>(w.q[b / 2 * kQuantBlock + j] >> (b % 2 * 4) & 15);
}
void unpack(const BlockQ4K& w, int64_t b, UnpackedBlock& u) {
  unpack_k(w, b, u);
}
void unpack(const BlockQ5K& w, int64_t b, UnpackedBlock& u) {
  unpack_k(w, b, u);
  for (int64_t j = 0; j < kQuantBlock; ++j)
    u.q[j] = static_cast<int8_t>(u.q[j] + (w.high[j] >> b & 1) * 16);
}
void unpack(const BlockQ6K& w, int64_t b, UnpackedBlock& u) {
  u = {.d = to_float(w.d), .m = kNoMinimum, .sub = {w.scales[2 * b], w.scales[2 * b + 1]}, .q = {}};
  const uint8_t* low = w.low + b / 4 * 64 + b % 2 * 32;
  const uint8_t* high = w.high + b / 4 * 32;
  for (int64_t j = 0; j < kQuantBlock; ++j) {
    const int four = low[j] >> (b % 4 / 2 * 4) & 15, two = high[j] >> (b % 4 * 2) & 3;
    u.q[j] = static_cast<int8_t>((four | two << 4) - 32);
  }
}

template <class Block>
const Block& block_at(const void* row, int64_t b) {
  return static_cast<const Block*>(row)[b];
}

}  // namespace

void unpack_block(DType dtype, const void* row, int64_t b, UnpackedBlock& u) {
  constexpr int64_t kInside = kSuperBlock / kQuantBlock;
  switch (dtype) {
    case DType::q8_0:
      return unpack(block_at<BlockQ8>(row, b), u);
    case DType::q4_0:
      return unpack(block_at<BlockQ4>(row, b), u);
    case DType::q4_1:
      return unpack(block_at<BlockQ4_1>(row, b), u);
    case DType::q5_0:
      return unpack(block_at<BlockQ5_0>(row, b), u);
    case DType::q5_1:
      return unpack(block_at<BlockQ5_1>(row, b), u);
    case DType::iq4_nl:
      return unpack(block_at<BlockIq4>(row, b), u);
    case DType::q4_k:
      return unpack(block_at<BlockQ4K>(row, b / kInside), b % kInside, u);
    case DType::q5_k:
      return unpack(block_at<BlockQ5K>(row, b / kInside), b % kInside, u);
    case DType::q6_k:
      return unpack(block_at<BlockQ6K>(row, b / kInside), b % kInside, u);
    default:
      u = {};
  }
}

void quantize_row(DType dtype, const float* x, int64_t n, void* row) {
  GPT_ASSERT(is_quantized(dtype) && n % block_size(dtype).elements == 0);
  switch (dtype) {
    case DType::q8_0:
      return quantize_blocks<BlockQ8>(x, n, row);
    case DType::q4_0:
      return quantize_blocks<BlockQ4>(x, n, row);
    case DType::q4_1:
      return quantize_blocks<BlockQ4_1>(x, n, row);
    case DType::q5_0:
      return quantize_blocks<BlockQ5_0>(x, n, row);
    case DType::q5_1:
      return quantize_blocks<BlockQ5_1>(x, n, row);
    case DType::iq4_nl:
      return quantize_blocks<BlockIq4>(x, n, row);
    case DType::q4_k:
      return quantize_blocks<BlockQ4K>(x, n, row);
    case DType::q5_k:
      return quantize_blocks<BlockQ5K>(x, n, row);
    default:
      return quantize_blocks<BlockQ6K>(x, n, row);
  }
}

void dequantize_block(DType dtype, const void* row, int64_t b, float* x) {
  UnpackedBlock u;
  unpack_block(dtype, row, b, u);
  for (int64_t j = 0; j < kQuantBlock; ++j) {
    const int64_t half = j / 16;
    const float scale = u.d * static_cast<float>(u.sub[half]);
    x[j] = scale * static_cast<float>(u.q[j]) + u.m;
  }
}

void dequantize_row(DType dtype, const void* row, int64_t n, float* x) {
  GPT_ASSERT(is_quantized(dtype) && n % block_size(dtype).elements == 0);
  for (int64_t b = 0; b < n / kQuantBlock; ++b)
    dequantize_block(dtype, row, b, x + b * kQuantBlock);
}

}  // namespace gpt
