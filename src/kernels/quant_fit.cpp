#include "kernels/quant_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

// Chooses the scales of IQ4_NL and the K dtypes. For given integers q, the best scale and minimum are a
// least-squares fit. For a given scale, the best integers are the nearest ones. The search therefore tries
// several scales, refits each of them once, and keeps the one with the smallest error. Errors of large values
// have more weight, because large values matter most.

namespace gpt {
namespace {

// A range of values up to this size is treated as zero. The value is far below the smallest fp16 scale, and
// divisions by larger values do not overflow.
constexpr float kNothing = 1e-30f;

constexpr int kBlocks = kSuperBlock / kQuantBlock;
constexpr int kHalf = 16;   // number of elements that share a scale in Q6_K
constexpr int kTries = 20;  // scales tried in addition to the one that covers the range exactly
constexpr int kMiddleTry = kTries / 2;
constexpr float kTryStep = 0.1f;  // in units of the quantization step

bool all_finite(const float* x, int64_t n = kSuperBlock) {
  return std::all_of(x, x + n, [](float v) { return std::isfinite(v); });
}

int nearest(float x, int least, int most) {
  return static_cast<int>(std::clamp(std::nearbyint(x), static_cast<float>(least), static_cast<float>(most)));
}

// Approximates x by scale q - min, where min >= 0 and q >= 0.
struct ScaleMin {
  float scale = 0, min = 0;
};

struct Importance {
  float of[kQuantBlock];
  explicit Importance(const float* x) {
    float squares = 0;
    for (int64_t j = 0; j < kQuantBlock; ++j)
      squares += x[j] * x[j];
    const float typical = std::sqrt(squares / kQuantBlock);
    for (int64_t j = 0; j < kQuantBlock; ++j)
      of[j] = typical + std::abs(x[j]);
  }
};

float squared_error(const float* x, const Importance& weight, ScaleMin s, int steps) {
  float error = 0;
  const float inverse = s.scale > 0 ? 1 / s.scale : 0;
  for (int64_t j = 0; j < kQuantBlock; ++j) {
    const auto q = static_cast<float>(nearest((x[j] + s.min) * inverse, 0, steps));
    const float difference = s.scale * q - s.min - x[j];
    error += weight.of[j] * difference * difference;
  }
  return error;
}

// Rounds x to integers with the scale and minimum `s`, and returns the scale and minimum that fit these
// integers best.
ScaleMin refit(const float* x, const Importance& weight, ScaleMin s, int steps) {
  double sw = 0, sq = 0, sqq = 0, sx = 0, sxq = 0;
  for (int64_t j = 0; j < kQuantBlock; ++j) {
    const double q = nearest((x[j] + s.min) / s.scale, 0, steps), w = weight.of[j];
    sw += w;
    sq += w * q;
    sqq += w * q * q;
    sx += w * x[j];
    sxq += w * q * x[j];
  }
  const double determinant = sw * sqq - sq * sq;
  if (determinant <= 0) return s;
  const double offset = (sqq * sx - sq * sxq) / determinant;
  if (offset <= 0)
    return {static_cast<float>((sw * sxq - sq * sx) / determinant), static_cast<float>(-offset)};
  return sqq > 0 ? ScaleMin{static_cast<float>(sxq / sqq), 0} : s;
}

ScaleMin fit_block(const float* x, int steps) {
  const auto [low, high] = std::minmax_element(x, x + kQuantBlock);
  const float min = std::max(0.0f, -*low), range = *high + min;
  if (!(range > kNothing)) return {0, min};
  const Importance weight(x);
  ScaleMin best{range / static_cast<float>(steps), min};
  float least = squared_error(x, weight, best, steps);
  for (int i = 0; i <= kTries; ++i) {
    const float grid = static_cast<float>(steps) + kTryStep * static_cast<float>(i - kMiddleTry);
    const ScaleMin s = refit(x, weight, {range / grid, min}, steps);
    if (!(s.scale > 0)) continue;
    const float error = squared_error(x, weight, s, steps);
    if (error < least) {
      least = error;
      best = s;
    }
  }
  return best;
}

void store_scales(const int (&scale)[kBlocks], const int (&min)[kBlocks], uint8_t (&bytes)[12]) {
  for (int b = 0; b < 4; ++b) {
    bytes[b] = static_cast<uint8_t>(scale[b] | scale[b + 4] >> 4 << 6);
    bytes[b + 4] = static_cast<uint8_t>(min[b] | min[b + 4] >> 4 << 6);
    bytes[b + 8] = static_cast<uint8_t>((scale[b + 4] & 15) | (min[b + 4] & 15) << 4);
  }
}

// Sets d, min and scales of the super-block, and fills q with integers from 0 to `steps`.
template <class Block>
void fit_super_block(const float* x, int steps, Block& block, int (&q)[kSuperBlock]) {
  constexpr float kMost = 63;
  ScaleMin fits[kBlocks];
  float largest_scale = 0, largest_min = 0;
  for (int b = 0; b < kBlocks; ++b) {
    fits[b] = fit_block(x + b * kQuantBlock, steps);
    largest_scale = std::max(largest_scale, fits[b].scale);
    largest_min = std::max(largest_min, fits[b].min);
  }
  block.d = to_f16(largest_scale / kMost);
  block.min = to_f16(largest_min / kMost);
  const float d = to_float(block.d), dmin = to_float(block.min);
  int scale[kBlocks], min[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    scale[b] = d > 0 ? nearest(fits[b].scale / d, 0, 63) : 0;
    min[b] = dmin > 0 ? nearest(fits[b].min / dmin, 0, 63) : 0;
    const float s = d * static_cast<float>(scale[b]), m = dmin * static_cast<float>(min[b]);
    for (int64_t j = b * kQuantBlock; j < (b + 1) * kQuantBlock; ++j)
      q[j] = s > 0 ? nearest((x[j] + m) / s, 0, steps) : 0;
  }
  store_scales(scale, min, block.scales);
}

template <class Block>
void store_halves(const int (&q)[kSuperBlock], Block& block) {
  for (int64_t i = 0; i < kSuperBlock / 64; ++i) {
    for (int64_t j = 0; j < kQuantBlock; ++j) {
      block.q[i * 32 + j] = static_cast<uint8_t>((q[i * 64 + j] & 15) | (q[i * 64 + 32 + j] & 15) << 4);
    }
  }
}

template <class Block>
void make_nan(Block& block) {
  std::memset(&block, 0, sizeof block);
  block.d = to_f16(std::numeric_limits<float>::quiet_NaN());
  if constexpr (std::is_same_v<Block, BlockQ6K>) std::fill_n(block.scales, kSuperBlock / kHalf, int8_t{1});
  if constexpr (requires { block.min; }) block.min = block.d;
}

// Returns the scale that approximates x by scale q, where q = nearest_q(x / scale). The scale may be
// negative. The search tries several scales. Each of them maps the element of largest magnitude to `least`
// (the q farthest from zero) or to a value up to kMiddleTry steps from `least`.
template <int n, class Nearest>
float fit_scale(const float* x, float least, float step, Nearest nearest_q) {
  const float* largest =
      std::max_element(x, x + n, [](float a, float b) { return std::abs(a) < std::abs(b); });
  if (!(std::abs(*largest) > kNothing)) return 0;
  float best = 0;
  double most = 0;  // largest (sum w x q)^2 / sum w q^2, which is the error removed compared with q = 0
  for (int i = 0; i <= kTries; ++i) {
    const float inverse = (least - step * static_cast<float>(i - kMiddleTry)) / *largest;
    double sxq = 0, sqq = 0;
    for (int j = 0; j < n; ++j) {
      const double q = nearest_q(x[j] * inverse), w = double{x[j]} * x[j];
      sxq += w * x[j] * q;
      sqq += w * q * q;
    }
    if (sqq > 0 && sxq * sxq > most * sqq) {
      most = sxq * sxq / sqq;
      best = static_cast<float>(sxq / sqq);
    }
  }
  return best;
}

// Indices into kIq4Numbers of the table values nearest to -128, -127, ..., 127.
constexpr auto kNearestIq4 = [] {
  std::array<uint8_t, 256> indices{};
  for (int i = 0, index = 0; i < 256; ++i) {
    const int q = i - 128;
    while (index < 15 && kIq4Numbers[index + 1] - q < q - kIq4Numbers[index])
      ++index;
    indices[static_cast<size_t>(i)] = static_cast<uint8_t>(index);
  }
  return indices;
}();
int nearest_iq4(float q) {
  const int index = nearest(q, -128, 127) + 128;
  return kNearestIq4[static_cast<size_t>(index)];
}

}  // namespace

void quantize_block(const float* x, BlockIq4& block) {
  if (!all_finite(x, kQuantBlock)) return make_nan(block);
  constexpr float kStep = 1.6f;  // 20 steps of 1.6 cover 32, the width of two average steps of kIq4Numbers
  block.d = to_f16(
      fit_scale<kQuantBlock>(x, kIq4Numbers[0], kStep, [](float q) { return kIq4Numbers[nearest_iq4(q)]; }));
  const float d = to_float(block.d), inverse = d == 0 ? 0 : 1 / d;
  for (int64_t j = 0; j < kQuantBlock / 2; ++j)
    block.q[j] = static_cast<uint8_t>(nearest_iq4(x[j] * inverse) |
                                      nearest_iq4(x[j + kQuantBlock / 2] * inverse) << 4);
}

void quantize_block(const float* x, BlockQ4K& block) {
  if (!all_finite(x)) return make_nan(block);
  int q[kSuperBlock];
  fit_super_block(x, 15, block, q);
  store_halves(q, block);
}

void quantize_block(const float* x, BlockQ5K& block) {
  if (!all_finite(x)) return make_nan(block);
  int q[kSuperBlock];
  fit_super_block(x, 31, block, q);
  store_halves(q, block);
  std::memset(block.high, 0, sizeof block.high);
  for (int64_t i = 0; i < kSuperBlock; ++i)
    block.high[i % kQuantBlock] =
        static_cast<uint8_t>(block.high[i % kQuantBlock] | q[i] >> 4 << i / kQuantBlock);
}

void quantize_block(const float* x, BlockQ6K& block) {
  if (!all_finite(x)) return make_nan(block);
  std::memset(&block, 0, sizeof block);
  float fits[kSuperBlock / kHalf], largest = 0;
  for (int h = 0; h < kSuperBlock / kHalf; ++h) {
    fits[h] = fit_scale<kHalf>(x + h * kHalf, -32, kTryStep, [](float q) { return nearest(q, -32, 31); });
    if (std::abs(fits[h]) > std::abs(largest)) largest = fits[h];
  }
  block.d = to_f16(largest / -128);
  const float d = to_float(block.d);
  if (d == 0) return;
  for (int h = 0; h < kSuperBlock / kHalf; ++h)
    block.scales[h] = static_cast<int8_t>(nearest(fits[h] / d, -128, 127));
  for (int64_t i = 0; i < kSuperBlock; ++i) {
    const int64_t half = i / kHalf;
    const float scale = d * static_cast<float>(block.scales[half]);
    const int q = scale == 0 ? 32 : nearest(x[i] / scale, -32, 31) + 32;
    const int64_t b = i / kQuantBlock, j = i % kQuantBlock;
    uint8_t& low = block.low[b / 4 * 64 + b % 2 * 32 + j];
    uint8_t& high = block.high[b / 4 * 32 + j];
    low = static_cast<uint8_t>(low | (q & 15) << b % 4 / 2 * 4);
    high = static_cast<uint8_t>(high | q >> 4 << b % 4 * 2);
  }
}

}  // namespace gpt
