#include "infer/logprobs.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "infer/select.h"

namespace gpt {
namespace {

void top_against(std::span<const float> logits, int64_t top, double log_sum,
                 std::vector<TokenLogprob>& result, TopScratch& scratch) {
  result.clear();
  top = std::min(top, std::ssize(logits));
  if (top <= 0) return;
  block_maxima(logits, scratch.maxima);
  const float threshold = kth_largest(logits, scratch.maxima, top, scratch.heap);
  ids_from(logits, scratch.maxima, threshold, scratch.ids);
  for (const int32_t id : scratch.ids)
    result.push_back({id, logits[static_cast<size_t>(id)] - log_sum});
  std::sort(result.begin(), result.end(), [&](const TokenLogprob& a, const TokenLogprob& b) {
    const float x = logits[static_cast<size_t>(a.id)], y = logits[static_cast<size_t>(b.id)];
    return x != y ? x > y : a.id < b.id;
  });
  result.resize(static_cast<size_t>(top));  // not those that tie with the last
}

}  // namespace

void TopScratch::reserve(int64_t vocab_size) {
  maxima.reserve(static_cast<size_t>(vocab_size / kSelectBlock + 1));
  heap.reserve(static_cast<size_t>(vocab_size));
  ids.reserve(static_cast<size_t>(vocab_size + kSelectBlock));
}

double log_sum_exp(std::span<const float> logits) {
  GPT_ASSERT(!logits.empty());
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits)
    sum += std::exp(x - max);
  return max + std::log(sum);
}

void read_logprobs(std::span<const float> logits, int32_t chosen, int64_t top, Logprobs& result,
                   TopScratch& scratch) {
  GPT_ASSERT(chosen >= 0 && chosen < std::ssize(logits));
  check_finite(logits);
  const double log_sum = log_sum_exp(logits);
  result.chosen = {chosen, logits[static_cast<size_t>(chosen)] - log_sum};
  top_against(logits, top, log_sum, result.top, scratch);
}

Logprobs logprobs_of(std::span<const float> logits, int32_t chosen, int64_t top) {
  Logprobs result;
  TopScratch scratch;
  read_logprobs(logits, chosen, top, result, scratch);
  return result;
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, int64_t top) {
  check_finite(logits);
  std::vector<TokenLogprob> result;
  TopScratch scratch;
  top_against(logits, top, log_sum_exp(logits), result, scratch);
  return result;
}

}  // namespace gpt
