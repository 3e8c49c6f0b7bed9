#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

// The k-th largest of `values` (k = 1: the largest); equal values count separately. `scratch` is
// overwritten. 1 <= k <= values.size(); no NaN. One pass and a heap of k for small k, linear otherwise.
float kth_largest(std::span<const float> values, int64_t k, std::vector<float>& scratch);

// The ids of the k largest values, largest first, equal values by lowest id. k is clamped to the size.
std::vector<int32_t> top_ids(std::span<const float> values, int64_t k, std::vector<float>& scratch);

// Throws Error naming the first logit that is NaN or infinite.
void check_finite(std::span<const float> logits);

}  // namespace gpt
