#pragma once

#include <cstdint>
#include <span>

namespace gpt {

// Passes over the logits of a large vocabulary. Most of what they look for is rare, so they go by the
// largest value of every kSelectBlock values and look inside a block only where that promises something.
inline constexpr int64_t kSelectBlock = 64;
constexpr int64_t select_blocks(int64_t values) {
  return (values + kSelectBlock - 1) / kSelectBlock;
}

// The largest of each block of values, no NaN among them: maxima[select_blocks].
void block_maxima(std::span<const float> values, float* maxima);

// The k-th largest of `values` (k = 1: the largest); equal values count separately. 1 <= k <=
// values.size(). One pass and a heap of k for small k, linear otherwise. heap [values.size()] is overwritten.
float kth_largest(std::span<const float> values, const float* maxima, int64_t k, float* heap);

// The ids of all values that are at least `threshold`, ascending, and how many they are. Writes up to
// kSelectBlock ids beyond the last: ids[values.size() + kSelectBlock].
int64_t ids_from(std::span<const float> values, const float* maxima, float threshold, int32_t* ids);

// weights[i] = exp((values[i] - max) / temperature), to about 1e-7 of it; 0 where that is below 1e-37.
// sums [select_blocks]: of each block of weights. Returns the sum of all. `max` is finite and no value
// exceeds it.
double softmax_weights(std::span<const float> values, float max, double temperature, float* weights,
                       double* sums);

// The first value that is NaN or infinite; -1: none.
int32_t first_not_finite(std::span<const float> values);

// log of the sum of exp(values), in double, in order. The values are finite and not none.
double log_sum_exp(std::span<const float> values);

}  // namespace gpt
