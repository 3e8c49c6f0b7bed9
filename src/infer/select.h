#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

// Passes over the logits of a large vocabulary. Most of what they look for is rare, so they go by the
// largest value of every kSelectBlock values and look inside a block only where that promises something.
inline constexpr int64_t kSelectBlock = 64;

// The largest of each block of values; no NaN.
void block_maxima(std::span<const float> values, std::vector<float>& maxima);

// The id of the largest value, the lowest of equals.
int32_t largest_id(std::span<const float> values, std::span<const float> maxima);

// The k-th largest of `values` (k = 1: the largest); equal values count separately. `heap` is overwritten.
// 1 <= k <= values.size(). One pass and a heap of k for small k, linear otherwise.
float kth_largest(std::span<const float> values, std::span<const float> maxima, int64_t k,
                  std::vector<float>& heap);

// The ids of all values that are at least `threshold`, ascending.
void ids_from(std::span<const float> values, std::span<const float> maxima, float threshold,
              std::vector<int32_t>& ids);

// weights[i] = exp((values[i] - max) / temperature), to about 1e-7 of it; 0 where that is below 1e-37.
// sums: of each block of weights. Returns the sum of all. `max` is finite and no value exceeds it.
double softmax_weights(std::span<const float> values, float max, double temperature,
                       std::vector<float>& weights, std::vector<double>& sums);

// Throws Error naming the first logit that is NaN or infinite.
void check_finite(std::span<const float> logits);

}  // namespace gpt
