#pragma once

#include <cstdint>
#include <span>

namespace gpt {

// Passes over the logits of a large vocabulary. They search for rare values, so they compare the maximum of
// each block of kSelectBlock values first and scan a block only if its maximum qualifies.
inline constexpr int64_t kSelectBlock = 64;
constexpr int64_t select_blocks(int64_t values) {
  return (values + kSelectBlock - 1) / kSelectBlock;
}

// Computes the maximum of each block: maxima[select_blocks]. The values must not contain NaN.
void block_maxima(std::span<const float> values, float* maxima);

// Returns the k-th largest value (k = 1: the largest), 1 <= k <= values.size(); equal values count
// separately. Uses one pass and a heap of k values for small k, linear-time selection otherwise. Overwrites
// heap [values.size()].
float kth_largest(std::span<const float> values, const float* maxima, int64_t k, float* heap);

// Writes the ids of all values >= threshold, in ascending order, and returns their number. Writes up to
// kSelectBlock ids beyond the last one: ids[values.size() + kSelectBlock].
int64_t ids_from(std::span<const float> values, const float* maxima, float threshold, int32_t* ids);

// Computes weights[i] = exp((values[i] - max) / temperature) with a relative error of about 1e-7; 0 below
// 1e-37. Stores the sum of each block of weights in sums [select_blocks] and returns the total. max must be
// finite and no value may exceed it.
double softmax_weights(std::span<const float> values, float max, double temperature, float* weights,
                       double* sums);

// Returns the index of the first NaN or infinite value; -1 if there is none.
int32_t first_not_finite(std::span<const float> values);

// Returns log(sum of exp(values)), summed in double and in order. values must be finite and not empty.
double log_sum_exp(std::span<const float> values);

}  // namespace gpt
