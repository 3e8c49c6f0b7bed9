#include "kernels/select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"

namespace gpt {
namespace {

constexpr auto kBlock = static_cast<size_t>(kSelectBlock);
constexpr size_t kLanes = 16;  // number of independent chains, which the compiler vectorizes

// Largest k for which a heap is used. If V values are in random order, only about k ln(V / k) of them enter
// the heap. Nearly every value therefore costs a single comparison. For larger k, the expected work of the
// heap approaches that of a partition.
constexpr int64_t kHeapLimit = 1024;

float largest(const float* x) {  // x has kSelectBlock values
  float lanes[kLanes];
  std::copy_n(x, kLanes, lanes);
  for (size_t i = kLanes; i < kBlock; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j)
      lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  }
  return *std::max_element(lanes, lanes + kLanes);
}

// Returns exp(x) for x <= 0, as 2^n times a polynomial in the remainder r, where |r| <= ln(2) / 2. In this
// range the Taylor polynomial of degree 7 is as accurate as a float. The function has no branches and no
// calls, so compilers can vectorize loops over it. The bits of the result do not depend on the vector width.
float exp_of_negative(float x) {
  constexpr float kLog2E = 1.44269504f, kMagic = 12582912.0f;          // 1.5 * 2^23: adding it rounds to an
                                                                       // integer
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // n * kLn2High is exact
  const float shifted = x * kLog2E + kMagic;
  const float n = shifted - kMagic;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1;
  p = p * r + 1;
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000u;
  const uint32_t keep = x > -87 ? 0xffffffffu : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p * std::bit_cast<float>(power)) & keep);
}

}  // namespace

void block_maxima(std::span<const float> values, float* maxima) {
  size_t b = 0;
  for (; (b + 1) * kBlock <= values.size(); ++b)
    maxima[b] = largest(values.data() + b * kBlock);
  if (b * kBlock < values.size())
    maxima[b] = *std::max_element(values.begin() + static_cast<std::ptrdiff_t>(b * kBlock), values.end());
}

float kth_largest(std::span<const float> values, const float* maxima, int64_t k, float* heap) {
  float* const end = heap + k;
  if (k > kHeapLimit) {
    std::copy(values.begin(), values.end(), heap);
    std::nth_element(heap, end - 1, heap + values.size(), std::greater<>());
    return end[-1];
  }
  std::copy_n(values.begin(), k, heap);
  std::make_heap(heap, end, std::greater<>());
  const auto count = static_cast<size_t>(k);
  for (size_t b = count / kBlock; b * kBlock < values.size(); ++b) {
    if (maxima[b] <= *heap) continue;
    const size_t last = std::min(values.size(), (b + 1) * kBlock);
    for (size_t i = std::max(count, b * kBlock); i < last; ++i) {
      if (values[i] <= *heap) continue;
      std::pop_heap(heap, end, std::greater<>());
      end[-1] = values[i];
      std::push_heap(heap, end, std::greater<>());
    }
  }
  return *heap;
}

int64_t ids_from(std::span<const float> values, const float* maxima, float threshold, int32_t* ids) {
  size_t n = 0;
  for (size_t b = 0; b * kBlock < values.size(); ++b) {
    if (maxima[b] < threshold) continue;
    const size_t end = std::min(values.size(), (b + 1) * kBlock);
    for (size_t i = b * kBlock; i < end; ++i) {  // branch-free, because the result of this comparison is hard
                                                 // to predict
      ids[n] = static_cast<int32_t>(i);
      n += static_cast<size_t>(values[i] >= threshold);
    }
  }
  return static_cast<int64_t>(n);
}

double softmax_weights(std::span<const float> values, float max, double temperature, float* weights,
                       double* sums) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  const auto scale = static_cast<float>(std::min(1 / temperature, kLargest));
  double total = 0;
  for (size_t b = 0; b * kBlock < values.size(); ++b) {
    const size_t n = std::min(kBlock, values.size() - b * kBlock);
    const float* from = values.data() + b * kBlock;
    float* to = weights + b * kBlock;
    for (size_t i = 0; i < n; ++i)
      to[i] = exp_of_negative((from[i] - max) * scale);
    float lanes[kLanes] = {};
    for (size_t i = 0; i + kLanes <= n; i += kLanes) {
      for (size_t j = 0; j < kLanes; ++j)
        lanes[j] += to[i + j];
    }
    double sum = 0;
    for (const float lane : lanes)
      sum += lane;
    for (size_t i = n / kLanes * kLanes; i < n; ++i)
      sum += to[i];
    sums[b] = sum;
    total += sum;
  }
  return total;
}

int32_t first_not_finite(std::span<const float> values) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  int finite = 1;
  for (const float x : values)
    finite &= static_cast<int>(std::fabs(x) <= kLargest);  // false for NaN
  if (finite != 0) return -1;
  const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
  return static_cast<int32_t>(bad - values.begin());
}

double log_sum_exp(std::span<const float> values) {
  const double max = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const float x : values)
    sum += std::exp(x - max);
  return max + std::log(sum);
}

}  // namespace gpt
