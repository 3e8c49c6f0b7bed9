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

// Holds the natural log-probabilities at one position: the log-softmax of the raw logits, before bias,
// penalties, temperature and filters. Contains the sampled token and the most likely tokens, which may
// include the sampled token. The most likely tokens are sorted by descending probability, then by ascending
// id.
struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};

// Sorts candidates by score and stores the log-probabilities of the first k in `result`. The scores must be
// logits.
void rank(std::span<TokenScore> candidates, int64_t k, double log_sum, std::vector<TokenLogprob>& result);

}  // namespace gpt
