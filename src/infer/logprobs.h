#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

struct TokenLogprob {
  int32_t id = 0;
  double logprob = 0;
};

// One position's log-probabilities: the token that was chosen and the likeliest alternatives (which
// may include it), likeliest first, ties by lowest id.
struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};

// log Σ exp(logits), in double, summed in order of ids. `logits` are finite and not empty.
double log_sum_exp(std::span<const float> logits);

// The model's own natural log-probabilities: log-softmax of the raw logits [V], before bias, penalties,
// temperature and filters. `top` is clamped to V; `chosen` is in [0, V). Throws Error when a logit is
// NaN or infinite.
Logprobs logprobs_of(std::span<const float> logits, int32_t chosen, int64_t top);

// As above, into memory that is used again.
struct TopScratch {
  void reserve(int64_t vocab_size);
  std::vector<float> maxima, heap;
  std::vector<int32_t> ids;
};
void read_logprobs(std::span<const float> logits, int32_t chosen, int64_t top, Logprobs& result,
                   TopScratch& scratch);

// The `top` likeliest ids and their log-probabilities; otherwise as logprobs_of.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int64_t top);

}  // namespace gpt
