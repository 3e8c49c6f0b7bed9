#include "infer/logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "infer/select.h"

namespace gpt {
namespace {

std::vector<TokenLogprob> top_against(std::span<const float> logits, int64_t top, double log_sum) {
  std::vector<float> scratch;
  std::vector<TokenLogprob> result;
  for (const int32_t id : top_ids(logits, top, scratch)) {
    result.push_back({id, logits[static_cast<size_t>(id)] - log_sum});
  }
  return result;
}

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  GPT_ASSERT(!logits.empty());
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits)
    sum += std::exp(x - max);
  return max + std::log(sum);
}

Logprobs logprobs_of(std::span<const float> logits, int32_t chosen, int64_t top) {
  GPT_ASSERT(chosen >= 0 && chosen < std::ssize(logits));
  check_finite(logits);
  const double log_sum = log_sum_exp(logits);
  return {{chosen, logits[static_cast<size_t>(chosen)] - log_sum}, top_against(logits, top, log_sum)};
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int64_t top) {
  check_finite(logits);
  return top_against(logits, top, log_sum_exp(logits));
}

}  // namespace gpt
