#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace gpt {

struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;
};

// One position's natural log-probabilities, those of the model: log-softmax of the logits before bias,
// penalties, temperature and filters. The token that was chosen and the likeliest ones (which may include
// it), likeliest first, ties by lowest id.
struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};

// The first k of candidates whose scores are logits. Sorts them.
void rank(std::span<TokenScore> candidates, int64_t k, double log_sum, std::vector<TokenLogprob>& result);

}  // namespace gpt
