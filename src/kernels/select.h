#pragma once

#include <cstdint>
#include <span>

namespace gpt {

// These functions search the logits of a large vocabulary for rare values. The search therefore first
// compares the maximum of each block of kSelectBlock values, and scans a block only if its maximum qualifies.
inline constexpr int64_t kSelectBlock = 64;
constexpr int64_t select_blocks(int64_t values) {
  return (values + kSelectBlock - 1) / kSelectBlock;
}

// Computes the maximum of each block and stores it in maxima [select_blocks]. The values must not contain
// NaN.
void block_maxima(std::span<const float> values, float* maxima);

// Returns the k-th largest value (k = 1: the largest), where 1 <= k <= values.size(). Each occurrence of a
// repeated value counts. Uses a heap of k values and one pass for small k, and linear-time selection for
// large k. Overwrites heap [values.size()].
float kth_largest(std::span<const float> values, const float* maxima, int64_t k, float* heap);

// Stores the ids of all values >= threshold in `ids`, in ascending order, and returns their number. May write
// up to kSelectBlock elements after the last id, so `ids` must have values.size() + kSelectBlock elements.
int64_t ids_from(std::span<const float> values, const float* maxima, float threshold, int32_t* ids);

// Computes weights[i] = exp((values[i] - max) / temperature) with a relative error of about 1e-7; weights
// below 1e-37 become 0. Stores the sum of the weights of each block in sums [select_blocks] and returns the
// total. `max` must be finite, and no value may exceed it.
double softmax_weights(std::span<const float> values, float max, double temperature, float* weights,
                       double* sums);

// Returns the index of the first NaN or infinite value; -1 if there is none.
int32_t first_not_finite(std::span<const float> values);

// Returns log(sum of exp(values)). The sum is computed in double and in order. `values` must be finite and
// not empty.
double log_sum_exp(std::span<const float> values);

}  // namespace gpt
