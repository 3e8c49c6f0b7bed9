#include "kernels/quant.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace gpt {
namespace {

// Half away from zero, for |x| far below 2^23: the addend is the largest float below 1/2, so that what lies
// just below a half is not pushed over it.
inline int round_away(float x) {
  return static_cast<int>(x + std::copysign(0.5f - 0x1p-25f, x));
}

// The bits of the largest magnitude order like the magnitudes, NaN above all.
inline int32_t magnitude_bits(float x) {
  return std::bit_cast<int32_t>(x) & 0x7fffffff;
}
int32_t largest_magnitude(const float* x) {
  int32_t largest = 0;
  for (int64_t j = 0; j < kQuantBlock; ++j)
    largest = std::max(largest, magnitude_bits(x[j]));
  return largest;
}

// How a block with scale d is stored, and what its elements are multiplied with: 0 where the block cannot
// be told from zeros or does not hold numbers alone.
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
  const float* first = x;  // the first of the largest magnitude
  while (magnitude_bits(*first) != largest)
    ++first;
  const Scale scale = scale_of(*first / -8);
  block.d = scale.d;
  // x / d is at least -8, so the sum is not negative and truncation is the floor.
  const auto quantized = [&](float value) {
    return scale.inverse == 0 ? 8 : std::min(15, static_cast<int>(value * scale.inverse + 8.5f));
  };
  for (int64_t j = 0; j < kQuantBlock / 2; ++j)
    block.q[j] = static_cast<uint8_t>(quantized(x[j]) | quantized(x[j + kQuantBlock / 2]) << 4);
}

void quantize_row(DType dtype, const float* x, int64_t n, void* row) {
  GPT_ASSERT(is_quantized(dtype) && n % kQuantBlock == 0);
  for (int64_t b = 0; b < n / kQuantBlock; ++b) {
    if (dtype == DType::q8_0) {
      quantize_block(x + b * kQuantBlock, static_cast<BlockQ8*>(row)[b]);
    } else {
      quantize_block(x + b * kQuantBlock, static_cast<BlockQ4*>(row)[b]);
    }
  }
}

void dequantize_row(DType dtype, const void* row, int64_t n, float* x) {
  GPT_ASSERT(is_quantized(dtype) && n % kQuantBlock == 0);
  for (int64_t b = 0; b < n / kQuantBlock; ++b, x += kQuantBlock) {
    if (dtype == DType::q8_0) {
      const BlockQ8& block = static_cast<const BlockQ8*>(row)[b];
      for (int64_t j = 0; j < kQuantBlock; ++j)
        x[j] = to_float(block.d) * static_cast<float>(block.q[j]);
    } else {
      const BlockQ4& block = static_cast<const BlockQ4*>(row)[b];
      for (int64_t j = 0; j < kQuantBlock / 2; ++j) {
        x[j] = to_float(block.d) * static_cast<float>((block.q[j] & 15) - 8);
        x[j + kQuantBlock / 2] = to_float(block.d) * static_cast<float>((block.q[j] >> 4) - 8);
      }
    }
  }
}

}  // namespace gpt
