#include "infer/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "infer/select.h"

namespace gpt {
namespace {

// Wide enough for any use, small enough that no penalty times a count can overflow to NaN.
constexpr double kPenaltyLimit = 1e6;

constexpr auto kBlock = static_cast<size_t>(kSelectBlock);

// Buckets of weights in (0, 1] by exponent and the first four bits of the fraction: a positive float's
// bits order as its value does.
size_t bucket_of(double weight) {
  return std::bit_cast<uint32_t>(static_cast<float>(weight)) >> 19;
}
constexpr size_t kBuckets = 0x7F0 + 1;  // the last is that of 1.0

// Narrows without the undefined behaviour of a finite double outside float's range; infinities stay.
float to_float(double x) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isinf(x) ? x : std::clamp(x, -kLargest, kLargest));
}

bool adjusts(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0 ||
         !p.logit_bias.empty();
}

void check_range(const char* name, double value, double low, double high) {
  if (value >= low && value <= high) return;
  fail_parameter(name, "expected a number from {} to {}, found {}", low, high, value);
}

}  // namespace

TopPRule parse_top_p_rule(std::string_view name) {
  if (name == "crossing") return TopPRule::crossing;
  if (name == "reaching") return TopPRule::reaching;
  fail_parameter("top_p_rule", "expected 'crossing' or 'reaching', found '{}'", name);
}

void validate(const SamplingParams& p, int64_t vocab_size) {
  if (!(p.temperature >= 0) || std::isinf(p.temperature)) {
    fail_parameter("temperature", "expected a finite number of at least 0 (0 = greedy), found {}",
                   p.temperature);
  }
  if (p.top_k < 0) fail_parameter("top_k", "expected 0 (off) or a positive number, found {}", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) {
    fail_parameter("top_p", "expected a number above 0 and up to 1 (1 = off), found {}", p.top_p);
  }
  check_range("min_p", p.min_p, 0, 1);
  if (!(p.repetition_penalty > 0 && p.repetition_penalty <= kPenaltyLimit)) {
    fail_parameter("repetition_penalty", "expected a number above 0 and up to {} (1 = off), found {}",
                   kPenaltyLimit, p.repetition_penalty);
  }
  check_range("presence_penalty", p.presence_penalty, -kPenaltyLimit, kPenaltyLimit);
  check_range("frequency_penalty", p.frequency_penalty, -kPenaltyLimit, kPenaltyLimit);
  for (const auto& [id, bias] : p.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      fail_parameter("logit_bias", "expected token ids from 0 to {}, found {}", vocab_size - 1, id);
    }
    if (std::isnan(bias)) fail_parameter("logit_bias", "expected a number for id {}, found {}", id, bias);
  }
}

Sampler::Sampler(int64_t vocab_size) : vocab_size_(static_cast<size_t>(vocab_size)) {
  const size_t blocks = vocab_size_ / kBlock + 1;
  adjusted_.reserve(vocab_size_);
  counts_.reserve(vocab_size_);
  seen_.reserve(vocab_size_);
  touched_.reserve(vocab_size_);
  maxima_.reserve(blocks);
  heap_.reserve(vocab_size_);
  ids_.reserve(vocab_size_ + kBlock);
  weights_.reserve(vocab_size_);
  sums_.reserve(blocks);
  candidates_.reserve(vocab_size_);
  bucket_.reserve(vocab_size_);
  bucket_sums_.reserve(kBuckets);
}

int32_t Sampler::sample(const SamplingParams& params, std::span<const float> logits, TokenHistory history,
                        RandomStream& random) {
  GPT_ASSERT(logits.size() == vocab_size_);
  check_finite(logits);
  const std::span<const float> scores = adjusts(params) ? adjusted(params, logits, history) : logits;
  block_maxima(scores, maxima_);
  const float max = *std::max_element(maxima_.begin(), maxima_.end());
  if (max == -std::numeric_limits<float>::infinity()) {
    fail("the logit biases forbid all {} ids: leave one possible", vocab_size_);
  }
  if (params.greedy()) return largest_id(scores, maxima_);
  if (std::isinf(max)) {
    collect_forced(scores);
  } else if (params.top_k > 0 && params.top_k < std::ssize(scores)) {
    collect_top_k(params, scores, max);
  } else {
    total_ = softmax_weights(scores, max, params.temperature, weights_, sums_);
    if (params.top_p == 1 && params.min_p == 0) return draw_from_all(random);
    collect_likely(params);
  }
  if (params.top_p < 1) keep_top_p(params);
  if (params.min_p > 0) {
    std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < params.min_p; });
  }
  return draw(random);
}

void Sampler::count_history(TokenHistory history) {
  const auto see = [&](int32_t id) {
    GPT_ASSERT(id >= 0 && static_cast<size_t>(id) < vocab_size_);
    if (seen_[static_cast<size_t>(id)]) return;
    seen_[static_cast<size_t>(id)] = 1;
    touched_.push_back(id);
  };
  for (const int32_t id : history.prompt)
    see(id);
  for (const int32_t id : history.output) {
    see(id);
    ++counts_[static_cast<size_t>(id)];
  }
}

std::span<const float> Sampler::adjusted(const SamplingParams& params, std::span<const float> logits,
                                         TokenHistory history) {
  adjusted_.assign(logits.begin(), logits.end());
  counts_.resize(vocab_size_, 0);
  seen_.resize(vocab_size_, 0);
  for (const auto& [id, bias] : params.logit_bias) {
    float& x = adjusted_[static_cast<size_t>(id)];
    x = to_float(x + bias);
  }
  count_history(history);
  for (const int32_t id : touched_) {
    const auto i = static_cast<size_t>(id);
    double x = adjusted_[i];
    x = x > 0 ? x / params.repetition_penalty : x * params.repetition_penalty;
    if (counts_[i] > 0) x -= params.presence_penalty + params.frequency_penalty * counts_[i];
    adjusted_[i] = to_float(x);
    counts_[i] = 0;
    seen_[i] = 0;
  }
  touched_.clear();
  return adjusted_;
}

// Differences to the maximum, in double, stay exact for any temperature: dividing the logits themselves
// would overflow for a tiny one.
void Sampler::collect_top_k(const SamplingParams& params, std::span<const float> scores, float max) {
  ids_from(scores, maxima_, kth_largest(scores, maxima_, params.top_k, heap_), ids_);
  candidates_.clear();
  total_ = 0;
  for (const int32_t id : ids_) {
    const double below = static_cast<double>(scores[static_cast<size_t>(id)]) - max;
    const double weight = std::exp(below / params.temperature);
    if (weight > 0) candidates_.push_back({weight, id});
    total_ += weight;
  }
}

// Biases of +inf: those ids alone, all alike.
void Sampler::collect_forced(std::span<const float> scores) {
  ids_from(scores, maxima_, std::numeric_limits<float>::infinity(), ids_);
  candidates_.clear();
  for (const int32_t id : ids_)
    candidates_.push_back({1, id});
  total_ = static_cast<double>(candidates_.size());
}

// Of weights_, those that top-p or min-p can keep. Tokens whose weight is below half of (1 - p) / V of the
// total have less than 1 - p of it together, so the sum of the others exceeds p before it is their turn.
void Sampler::collect_likely(const SamplingParams& params) {
  const double least = params.top_p < 1 ? (1 - params.top_p) * total_ / static_cast<double>(2 * vocab_size_)
                                        : params.min_p / 2;
  // The smallest float above 0 stands for "more than nothing".
  const float threshold = std::max(static_cast<float>(least), std::numeric_limits<float>::denorm_min());
  block_maxima(weights_, maxima_);
  ids_from(weights_, maxima_, threshold, ids_);
  candidates_.clear();
  for (const int32_t id : ids_)
    candidates_.push_back({weights_[static_cast<size_t>(id)], id});
}

// Removes what top-p drops and leaves the rest in order of ids: everything after the candidate with
// which the sum crosses the limit, in order of falling weight. Sorting all of a large vocabulary would
// cost more than the rest of sampling, so a histogram finds the bucket with that candidate, and only the
// bucket is sorted. Sums of weights are compared with p · total, not sums of quotients with p, so that
// equality is exact wherever the weights are (m of V equal logits against p = m / V).
void Sampler::keep_top_p(const SamplingParams& params) {
  bucket_sums_.assign(kBuckets, 0);
  for (const Candidate& c : candidates_)
    bucket_sums_[bucket_of(c.weight)] += c.weight;
  const double limit = params.top_p * total_;
  const auto crosses = [&](double sum) {
    return params.top_p_rule == TopPRule::crossing ? sum > limit : sum >= limit;
  };
  double sum = 0;
  size_t bucket = kBuckets;
  while (bucket > 0 && !crosses(sum + bucket_sums_[bucket - 1]))
    sum += bucket_sums_[--bucket];
  if (bucket == 0) return;  // p is so near 1 that rounding keeps the sum from crossing
  --bucket;
  bucket_.clear();
  for (const Candidate& c : candidates_) {
    if (bucket_of(c.weight) == bucket) bucket_.push_back(c);
  }
  std::sort(bucket_.begin(), bucket_.end(), [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  size_t i = 0;
  while (i + 1 < bucket_.size() && !crosses(sum += bucket_[i].weight))
    ++i;
  const Candidate last = bucket_[i];
  std::erase_if(candidates_, [&](const Candidate& c) {
    return c.weight < last.weight || (c.weight == last.weight && c.id > last.id);
  });
}

int32_t Sampler::draw(RandomStream& random) const {
  double total = 0;
  for (const Candidate& c : candidates_)
    total += c.weight;
  const double target = random.uniform() * total;
  double sum = 0;
  for (const Candidate& c : candidates_) {
    sum += c.weight;
    if (sum > target) return c.id;
  }
  return candidates_.back().id;  // the product rounded up to the total
}

// From weights_: first the block, then the token.
int32_t Sampler::draw_from_all(RandomStream& random) {
  const double target = random.uniform() * total_;
  double sum = 0;
  size_t block = 0;
  size_t last = 0;  // the last block with anything in it
  for (; block < sums_.size() && !(sum + sums_[block] > target); sum += sums_[block++])
    last = sums_[block] > 0 ? block : last;
  if (block == sums_.size()) block = last;
  const size_t end = std::min(weights_.size(), (block + 1) * kBlock);
  size_t chosen = block * kBlock;
  for (size_t i = block * kBlock; i < end && !(sum > target); ++i) {
    if (weights_[i] == 0) continue;
    sum += weights_[i];
    chosen = i;
  }
  return static_cast<int32_t>(chosen);
}

}  // namespace gpt
