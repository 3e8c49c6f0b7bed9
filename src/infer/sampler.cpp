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

// Buckets of weights in (0, 1] by exponent and the first four bits of the fraction: a positive double's
// bits order as its value does.
size_t bucket_of(double weight) {
  return static_cast<size_t>(std::bit_cast<uint64_t>(weight) >> 48);
}
constexpr size_t kBuckets = 0x3FF0 + 1;  // the last is that of 1.0

// Narrows without the undefined behaviour of a finite double outside float's range; infinities stay.
float to_float(double x) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isinf(x) ? x : std::clamp(x, -kLargest, kLargest));
}

void check_range(const char* flag, double value, double low, double high) {
  if (value >= low && value <= high) return;
  fail_usage("{}: expected a number from {} to {}, found {}", flag, low, high, value);
}

}  // namespace

TopPRule parse_top_p_rule(std::string_view name) {
  if (name == "crossing") return TopPRule::crossing;
  if (name == "reaching") return TopPRule::reaching;
  fail_usage("--top-p-rule: expected 'crossing' or 'reaching', found '{}'", name);
}

void validate(const SamplingParams& p, int64_t vocab_size) {
  if (!(p.temperature >= 0) || std::isinf(p.temperature)) {
    fail_usage("--temperature: expected a finite number of at least 0 (0 = greedy), found {}", p.temperature);
  }
  if (p.top_k < 0) fail_usage("--top-k: expected 0 (off) or a positive number, found {}", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) {
    fail_usage("--top-p: expected a number above 0 and up to 1 (1 = off), found {}", p.top_p);
  }
  check_range("--min-p", p.min_p, 0, 1);
  if (!(p.repetition_penalty > 0 && p.repetition_penalty <= kPenaltyLimit)) {
    fail_usage("--repetition-penalty: expected a number above 0 and up to {} (1 = off), found {}",
               kPenaltyLimit, p.repetition_penalty);
  }
  check_range("--presence-penalty", p.presence_penalty, -kPenaltyLimit, kPenaltyLimit);
  check_range("--frequency-penalty", p.frequency_penalty, -kPenaltyLimit, kPenaltyLimit);
  for (const auto& [id, bias] : p.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      fail_usage("--logit-bias: expected token ids from 0 to {}, found {}", vocab_size - 1, id);
    }
    if (std::isnan(bias)) fail_usage("--logit-bias: expected a number for id {}, found {}", id, bias);
  }
}

Sampler::Sampler(SamplingParams params, int64_t vocab_size)
    : params_(std::move(params)), vocab_size_(static_cast<size_t>(vocab_size)) {
  GPT_ASSERT(vocab_size > 0);
  validate(params_, vocab_size);
  if (adjusts()) {
    counts_.assign(vocab_size_, 0);
    seen_.assign(vocab_size_, 0);
  }
}

int32_t Sampler::sample(std::span<const float> logits, TokenHistory history, RandomStream& random) {
  GPT_ASSERT(logits.size() == vocab_size_);
  check_finite(logits);
  const std::span<const float> scores = adjusts() ? adjusted(logits, history) : logits;
  const auto best = std::max_element(scores.begin(), scores.end());  // the first of equals
  if (*best == -std::numeric_limits<float>::infinity()) {
    fail("--logit-bias: expected at least one id to stay possible, found all {} forbidden", vocab_size_);
  }
  if (params_.greedy()) return static_cast<int32_t>(best - scores.begin());
  collect(scores, *best);
  if (params_.top_p < 1) keep_top_p();
  if (params_.min_p > 0) {
    std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < params_.min_p; });
  }
  return draw(random);
}

bool Sampler::adjusts() const {
  return params_.repetition_penalty != 1 || params_.presence_penalty != 0 || params_.frequency_penalty != 0 ||
         !params_.logit_bias.empty();
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

std::span<const float> Sampler::adjusted(std::span<const float> logits, TokenHistory history) {
  adjusted_.assign(logits.begin(), logits.end());
  for (const auto& [id, bias] : params_.logit_bias) {
    float& x = adjusted_[static_cast<size_t>(id)];
    x = to_float(x + bias);
  }
  count_history(history);
  for (const int32_t id : touched_) {
    const auto i = static_cast<size_t>(id);
    double x = adjusted_[i];
    x = x > 0 ? x / params_.repetition_penalty : x * params_.repetition_penalty;
    if (counts_[i] > 0) x -= params_.presence_penalty + params_.frequency_penalty * counts_[i];
    adjusted_[i] = to_float(x);
    counts_[i] = 0;
    seen_[i] = 0;
  }
  touched_.clear();
  return adjusted_;
}

// Fills candidates_ with what top-k leaves. Differences to the maximum, in double, stay exact for any
// temperature: dividing the logits themselves would overflow for a tiny one.
void Sampler::collect(std::span<const float> scores, float max) {
  const bool limited = params_.top_k > 0 && params_.top_k < std::ssize(scores);
  const float threshold =
      limited ? kth_largest(scores, params_.top_k, heap_) : -std::numeric_limits<float>::infinity();
  const bool forced = std::isinf(max);  // by a bias of +inf; inf - inf is no number
  candidates_.clear();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] < threshold) continue;
    const double below = static_cast<double>(scores[i]) - max;
    const double weight = forced ? (scores[i] == max ? 1 : 0) : std::exp(below / params_.temperature);
    if (weight > 0) candidates_.push_back({weight, static_cast<int32_t>(i)});
  }
}

// Removes what top-p drops and leaves the rest in order of ids: everything after the candidate with
// which the sum crosses the limit, in order of falling weight. Sorting all of a large vocabulary would
// cost more than the rest of sampling, so a histogram finds the bucket with that candidate, and only the
// bucket is sorted. Sums of weights are compared with p · total, not sums of quotients with p, so that
// equality is exact wherever the weights are (m of V equal logits against p = m / V).
void Sampler::keep_top_p() {
  double total = 0;
  bucket_sums_.assign(kBuckets, 0);
  for (const Candidate& c : candidates_) {
    total += c.weight;
    bucket_sums_[bucket_of(c.weight)] += c.weight;
  }
  const double limit = params_.top_p * total;
  const auto crosses = [&](double sum) {
    return params_.top_p_rule == TopPRule::crossing ? sum > limit : sum >= limit;
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

}  // namespace gpt
