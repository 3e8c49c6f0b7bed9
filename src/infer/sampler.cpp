#include "infer/sampler.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/select.h"

namespace gpt {
namespace {

// If the constraint allows at most this many tokens, all of them become candidates even without top-k. The
// scores of the other tokens then need not be read.
constexpr int64_t kFewAllowed = 256;

constexpr auto kBlock = static_cast<size_t>(kSelectBlock);

// Returns the bucket of a weight in (0, 1]. The bucket is given by the exponent and the first four bits of
// the mantissa. Larger weights never have smaller buckets, because the bit patterns of positive floats are
// ordered like their values.
size_t bucket_of(double weight) {
  return std::bit_cast<uint32_t>(static_cast<float>(weight)) >> 19;
}
constexpr size_t kBuckets = 0x7F0 + 1;  // the last bucket contains only 1.0

bool adjusts(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0 ||
         !p.logit_bias.empty();
}

void check_possible(float max, size_t vocab_size) {
  if (max > -std::numeric_limits<float>::infinity()) return;
  fail(
      "logit_bias: all {} token ids are forbidden by the biases and the output constraint, if any; allow at "
      "least one",
      vocab_size);
}

double weight_of(float score, float max, double temperature) {
  if (std::isinf(max))
    return score == max ? 1 : 0;  // biases of +inf: only the ids with +inf are possible, with equal weights
  return std::exp((static_cast<double>(score) - max) / temperature);
}

std::string expected_range(const SamplingField& field) {
  std::string text = fmt::format("a number from {} to {}", field.min, field.max);
  if (field.max == DBL_MAX) text = fmt::format("a finite number of at least {}", field.min);
  if (field.above_min) text = fmt::format("a number above {} and up to {}", field.min, field.max);
  return std::isnan(field.off) ? text : text + fmt::format(" ({} = off)", field.off);
}

template <class Number>
void check_field(const SamplingField& field, const Number& number, int64_t /*vocab_size*/) {
  const auto x = static_cast<double>(number);
  if (!(x >= field.min && x <= field.max) || (field.above_min && x == field.min))
    fail_parameter(field.name, "expected {}, found {}", expected_range(field), number);
}

void check_field(const SamplingField&, const TopPRule&, int64_t) {}

void check_field(const SamplingField& field, const std::map<int32_t, double>& values, int64_t vocab_size) {
  for (const auto& [id, value] : values) {
    if (id < 0 || id >= vocab_size)
      fail_parameter(field.name, "expected token ids from 0 to {}, found {}", vocab_size - 1, id);
    if (!(value >= field.min && value <= field.max))
      fail_parameter(field.name, "expected a number for id {}, found {}", id, value);
  }
}

}  // namespace

TopPRule parse_top_p_rule(std::string_view name) {
  const auto found = std::ranges::find(gptcpp::kTopPRules, name);
  if (found != std::end(gptcpp::kTopPRules))
    return static_cast<TopPRule>(found - std::begin(gptcpp::kTopPRules));
  fail_parameter("top_p_rule", "expected '{}', found '{}'", fmt::join(gptcpp::kTopPRules, "' or '"), name);
}

void validate(const SamplingParams& params, int64_t vocab_size) {
  gptcpp::visit_sampling(
      params, [&](const SamplingField& field, const auto& value) { check_field(field, value, vocab_size); });
}

Sampler::Sampler(const Backend& backend, int64_t vocab_size)
    : pool_(backend.pool), vocab_size_(static_cast<size_t>(vocab_size)), selector_(backend, vocab_size) {
  // Without this call, a reallocation would copy the elements, and the copies would lose their reserved
  // capacity.
  choices_.reserve(static_cast<size_t>(pool_.size()));
  for (int thread = 0; thread < pool_.size(); ++thread)
    choices_.emplace_back(vocab_size_);
}

void Sampler::draw(const TensorView& logits, std::span<Draw> draws) {
  selector_.rows.clear();
  selector_.changes.clear();
  selector_.allowed.clear();
  const auto row_of = [&](size_t i) { return draws[i].row >= 0 ? draws[i].row : static_cast<int64_t>(i); };
  for (size_t i = 0; i < draws.size(); ++i)
    ask(draws[i], row_of(i));
  // Log-probabilities are computed from the raw logits, before any change.
  logprob_rows_.assign(draws.size(), 0);
  for (size_t i = 0; i < draws.size(); ++i) {
    if (draws[i].logprobs < 0) continue;
    logprob_rows_[i] = selector_.rows.size();
    selector_.rows.push_back({.row = row_of(i),
                              .k = std::min(draws[i].logprobs, static_cast<int64_t>(vocab_size_)),
                              .log_sum = true});
  }
  selector_.run(logits);
  pool_.parallel_for(std::ssize(draws), [&](int64_t row, int thread) {
    const auto i = static_cast<size_t>(row);
    draw_one(draws[i], i, choices_[static_cast<size_t>(thread)]);
  });
  add_chosen_logprobs(draws);
}

void Sampler::add_chosen_logprobs(std::span<Draw> draws) {
  const auto wants = [](const Draw& d) { return d.id >= 0 && d.logprobs >= 0; };
  chosen_.clear();
  for (size_t i = 0; i < draws.size(); ++i) {
    if (wants(draws[i])) chosen_.push_back({logprob_rows_[i], draws[i].id});
  }
  if (chosen_.empty()) return;
  const float* logit = selector_.logits(chosen_).data();
  for (size_t i = 0; i < draws.size(); ++i) {
    if (wants(draws[i]))
      draws[i].result.chosen = {draws[i].id, *logit++ - selector_.selection(logprob_rows_[i]).log_sum};
  }
}

void Sampler::draw_one(Draw& d, size_t row, Choice& choice) noexcept {
  d.id = -1;
  if (!d.error.empty()) return;
  try {
    selector_.selection(row);  // throws if a logit is not finite
    const int32_t id = choose(d, row, choice);
    if (d.logprobs >= 0) {
      const size_t at = logprob_rows_[row];
      rank(selector_.candidates(at), d.logprobs, selector_.selection(at).log_sum, d.result.top);
    }
    d.id = id;
  } catch (const std::exception& e) {
    d.error = e.what();
  }
}

int32_t Sampler::choose(Draw& d, size_t row, Choice& choice) {
  if (selector_.rows[row].k > 0) return choice.among(*d.params, selector_.candidates(row), d.random);
  return choice.among_all(*d.params, selector_.scores(row), d.random);
}

void Sampler::ask(Draw& d, int64_t row) {
  const SamplingParams& p = *d.params;
  SelectRow r{.row = row,
              .repetition_penalty = p.repetition_penalty,
              .presence_penalty = p.presence_penalty,
              .frequency_penalty = p.frequency_penalty};
  if (p.greedy()) {
    r.k = 1;
  } else if (p.top_k < static_cast<int64_t>(vocab_size_)) {
    r.k = p.top_k;
  }
  d.error.clear();
  if (adjusts(p)) ask_changes(d, r);
  if (d.constraint != nullptr) ask_allowed(d, r);
  selector_.rows.push_back(r);
}

// Limits k to the number of allowed tokens, so that a forbidden token is never a candidate. All forbidden
// tokens have the score -inf. With fewer than k allowed tokens, the k-th candidate would have this score, and
// all forbidden tokens would tie with it.
void Sampler::ask_allowed(Draw& d, SelectRow& r) {
  const size_t words = (vocab_size_ + 63) / 64, begin = selector_.allowed.size();
  selector_.allowed.resize(begin + words);
  const std::span allowed = std::span(selector_.allowed).subspan(begin);
  int64_t count = 0;
  try {
    d.constraint->allow(d.remaining, d.end_ids, allowed);
    for (const uint64_t word : allowed)
      count += std::popcount(word);
    if (count == 0)
      fail("the output constraint forbids all {} token ids: none can follow the tokens sampled so far",
           vocab_size_);
  } catch (const std::exception& e) {
    d.error = e.what();
    count = 1;
  }
  r.allowed_row = static_cast<int64_t>(begin / words);
  if (r.k > 0 || count <= kFewAllowed) r.k = r.k > 0 ? std::min(r.k, count) : count;
}

void Sampler::ask_changes(const Draw& d, SelectRow& r) {
  constexpr int32_t kUnseen = -1;
  counts_.resize(vocab_size_, kUnseen);
  const auto see = [&](int32_t id, int32_t times) {
    GPT_ASSERT(id >= 0 && static_cast<size_t>(id) < vocab_size_);
    int32_t& count = counts_[static_cast<size_t>(id)];
    if (count == kUnseen) {
      touched_.push_back(id);
      count = 0;
    }
    count += times;
  };
  for (const int32_t id : d.history.prompt)
    see(id, 0);
  for (const int32_t id : d.history.output)
    see(id, 1);
  const auto& biases = d.params->logit_bias;
  r.first_change = std::ssize(selector_.changes);
  for (const auto& [id, bias] : biases)
    selector_.changes.push_back({id, counts_[static_cast<size_t>(id)], bias});
  for (const int32_t id : touched_) {
    if (!biases.contains(id)) selector_.changes.push_back({id, counts_[static_cast<size_t>(id)]});
    counts_[static_cast<size_t>(id)] = kUnseen;
  }
  touched_.clear();
  r.changes = std::ssize(selector_.changes) - r.first_change;
}

// ---------------------------------------------------------------------------------------------------

Sampler::Choice::Choice(size_t vocab_size) : vocab_size_(vocab_size) {
  const auto blocks = static_cast<size_t>(select_blocks(static_cast<int64_t>(vocab_size_)));
  maxima_.resize(blocks);
  ids_.resize(vocab_size_ + kBlock);
  weights_.resize(vocab_size_);
  sums_.resize(blocks);
  weighted_.reserve(vocab_size_);
  bucket_.reserve(vocab_size_);
  bucket_sums_.reserve(kBuckets);
}

// Computes differences to the maximum in double, which stay accurate for any temperature. Dividing the scores
// themselves would overflow for a tiny temperature.
int32_t Sampler::Choice::among(const SamplingParams& params, std::span<const TokenScore> candidates,
                               RandomStream& random) {
  const auto best = std::ranges::max_element(candidates, {}, &TokenScore::score);
  const float max = best->score;
  check_possible(max, vocab_size_);
  if (params.greedy()) return best->id;
  weighted_.clear();
  total_ = 0;
  for (const TokenScore& c : candidates) {
    const double weight = weight_of(c.score, max, params.temperature);
    if (weight > 0) weighted_.push_back({weight, c.id});
    total_ += weight;
  }
  return filter_and_draw(params, random);
}

int32_t Sampler::Choice::among_all(const SamplingParams& params, std::span<const float> scores,
                                   RandomStream& random) {
  block_maxima(scores, maxima_.data());
  const float max = *std::max_element(maxima_.begin(), maxima_.end());
  check_possible(max, vocab_size_);
  if (std::isinf(max)) {
    collect_forced(scores);
  } else {
    total_ = softmax_weights(scores, max, params.temperature, weights_.data(), sums_.data());
    if (params.top_p == 1 && params.min_p == 0) return draw_from_all(random);
    collect_likely(params);
  }
  return filter_and_draw(params, random);
}

int32_t Sampler::Choice::filter_and_draw(const SamplingParams& params, RandomStream& random) {
  if (params.top_p < 1) keep_top_p(params);
  if (params.min_p > 0) std::erase_if(weighted_, [&](const Weighted& w) { return w.weight < params.min_p; });
  return draw(random);
}

// Collects the ids whose score is +inf. Only these ids can be sampled, and they have equal weights.
void Sampler::Choice::collect_forced(std::span<const float> scores) {
  const int64_t n = ids_from(scores, maxima_.data(), std::numeric_limits<float>::infinity(), ids_.data());
  weighted_.clear();
  for (const int32_t id : std::span(ids_).first(static_cast<size_t>(n)))
    weighted_.push_back({1, id});
  total_ = static_cast<double>(n);
}

// Fills weighted_ with all tokens that top-p or min-p might keep. For top-p, tokens below the weight total ·
// (1 - p) / (2 V) are omitted. The weights of these tokens add up to less than (1 - p) · total. The weights
// of the other tokens therefore add up to more than p · total, and top-p never reaches a token below the
// threshold.
void Sampler::Choice::collect_likely(const SamplingParams& params) {
  const double least = params.top_p < 1 ? (1 - params.top_p) * total_ / static_cast<double>(2 * vocab_size_)
                                        : params.min_p / 2;
  // The smallest positive float selects all nonzero weights.
  const float threshold = std::max(static_cast<float>(least), std::numeric_limits<float>::denorm_min());
  block_maxima(weights_, maxima_.data());
  const int64_t n = ids_from(weights_, maxima_.data(), threshold, ids_.data());
  weighted_.clear();
  for (const int32_t id : std::span(ids_).first(static_cast<size_t>(n)))
    weighted_.push_back({weights_[static_cast<size_t>(id)], id});
}

// Applies top-p. The weights are summed in descending order until the sum crosses the limit. All later tokens
// in this order are removed. The remaining tokens stay in order of ids. Sorting a large vocabulary would cost
// more than the rest of sampling. A histogram therefore finds the bucket that contains the last token to
// keep, and only this bucket is sorted. The weights are not normalized, so their sum is compared with p ·
// total. This comparison is exact whenever the weights are exact, for example for m of V equal logits and p =
// m / V.
void Sampler::Choice::keep_top_p(const SamplingParams& params) {
  bucket_sums_.assign(kBuckets, 0);
  for (const Weighted& c : weighted_)
    bucket_sums_[bucket_of(c.weight)] += c.weight;
  const double limit = params.top_p * total_;
  const auto crosses = [&](double sum) {
    return params.top_p_rule == TopPRule::crossing ? sum > limit : sum >= limit;
  };
  double sum = 0;
  size_t bucket = kBuckets;
  while (bucket > 0 && !crosses(sum + bucket_sums_[bucket - 1]))
    sum += bucket_sums_[--bucket];
  if (bucket == 0) return;  // if p is close to 1, rounding can keep the sum below the limit
  --bucket;
  bucket_.clear();
  for (const Weighted& c : weighted_) {
    if (bucket_of(c.weight) == bucket) bucket_.push_back(c);
  }
  std::sort(bucket_.begin(), bucket_.end(), [](const Weighted& a, const Weighted& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  });
  size_t i = 0;
  while (i + 1 < bucket_.size() && !crosses(sum += bucket_[i].weight))
    ++i;
  const Weighted last = bucket_[i];
  std::erase_if(weighted_, [&](const Weighted& c) {
    return c.weight < last.weight || (c.weight == last.weight && c.id > last.id);
  });
}

int32_t Sampler::Choice::draw(RandomStream& random) const {
  double total = 0;
  for (const Weighted& c : weighted_)
    total += c.weight;
  const double target = random.uniform() * total;
  double sum = 0;
  for (const Weighted& c : weighted_) {
    sum += c.weight;
    if (sum > target) return c.id;
  }
  return weighted_.back().id;  // reached only if rounding made the target equal to the total
}

// Samples from weights_: first a block, then a token in it.
int32_t Sampler::Choice::draw_from_all(RandomStream& random) const {
  const double target = random.uniform() * total_;
  double sum = 0;
  size_t block = 0;
  size_t last = 0;  // the last block with a nonzero weight
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
