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

// Natural log-probabilities of one position: log-softmax of the model's logits, before bias, penalties,
// temperature and filters. Contains the sampled token, and the top tokens (which may include it) in order of
// falling probability, ties by lowest id.
struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};

// Sorts candidates, whose scores are logits, and stores the log-probabilities of the first k in `result`.
void rank(std::span<TokenScore> candidates, int64_t k, double log_sum, std::vector<TokenLogprob>& result);

}  // namespace gpt
