#include "infer/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.h"
#include "kernels/select.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/shadow_device.h"
#include "unit/infer/fixed_sampler.h"

namespace gpt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Returns the ids that occur in 4,000 samples. If no kept token is rarer than about 1 %, these are all kept
// tokens.
std::set<int32_t> support(const std::vector<float>& logits, const SamplingParams& params,
                          TokenHistory history = {}) {
  FixedSampler sampler(params, std::ssize(logits));
  std::set<int32_t> ids;
  for (uint64_t i = 0; i < 4000; ++i) {
    RandomStream random(7, RandomSite::test, i);
    ids.insert(sampler.sample(logits, history, random));
  }
  return ids;
}

int32_t greedy(const std::vector<float>& logits, SamplingParams params, TokenHistory history = {}) {
  params.temperature = 0;
  RandomStream random(1, RandomSite::test);
  return FixedSampler(params, std::ssize(logits)).sample(logits, history, random);
}

using IdSet = std::set<int32_t>;

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOfEquals) {
  EXPECT_EQ(greedy({1, 3, 2}, {}), 1);
  EXPECT_EQ(greedy({1, 5, 5, 5}, {}), 1);
  EXPECT_EQ(greedy({-4, -4}, {}), 0);
}

TEST(Sampler, GreedyIgnoresFilters) {
  EXPECT_EQ(greedy({1, 3, 2}, {.top_k = 1, .top_p = 0.01, .min_p = 1}), 1);
}

TEST(Sampler, TopKKeepsTheKLargest) {
  EXPECT_EQ(support({0.3f, 0.1f, 0.2f, 0.4f}, {.temperature = 1, .top_k = 2}), (IdSet{0, 3}));
  EXPECT_EQ(support({0.3f, 0.1f, 0.2f, 0.4f}, {.temperature = 1, .top_k = 1}), (IdSet{3}));
}

TEST(Sampler, TopKKeepsAllThatTieWithTheLast) {
  // The second largest value is 0.2, which ids 1, 2 and 4 share.
  EXPECT_EQ(support({0.1f, 0.2f, 0.2f, 0.3f, 0.2f}, {.temperature = 1, .top_k = 2}), (IdSet{1, 2, 3, 4}));
}

TEST(Sampler, TopKIsOffAtZeroAndClampedToTheVocabulary) {
  EXPECT_EQ(support({0, 0, 0}, {.temperature = 1, .top_k = 0}), (IdSet{0, 1, 2}));
  EXPECT_EQ(support({0, 0, 0}, {.temperature = 1, .top_k = 1000}), (IdSet{0, 1, 2}));
}

TEST(Sampler, TopPKeepsTheCrossingToken) {
  // The probabilities are 0.5, 0.3, 0.15 and 0.05. The sums before each are 0, 0.5, 0.8 and 0.95.
  const std::vector<float> logits{std::log(0.15f), std::log(0.5f), std::log(0.05f), std::log(0.3f)};
  for (const TopPRule rule : {TopPRule::crossing, TopPRule::reaching}) {
    EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.4, .top_p_rule = rule}), (IdSet{1}));
    EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.6, .top_p_rule = rule}), (IdSet{1, 3}));
    EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.9, .top_p_rule = rule}), (IdSet{0, 1, 3}));
    EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 0.96, .top_p_rule = rule}), (IdSet{0, 1, 2, 3}));
    EXPECT_EQ(support(logits, {.temperature = 1, .top_p = 1e-9, .top_p_rule = rule}), (IdSet{1}));
  }
}

TEST(Sampler, TopPRulesDifferOnExactEquality) {
  // With four equal logits, the sum before the third token is exactly one half.
  const std::vector<float> four{2, 2, 2, 2};
  EXPECT_EQ(support(four, {.temperature = 1, .top_p = 0.5, .top_p_rule = TopPRule::crossing}),
            (IdSet{0, 1, 2}));
  EXPECT_EQ(support(four, {.temperature = 1, .top_p = 0.5, .top_p_rule = TopPRule::reaching}), (IdSet{0, 1}));
  // With ten equal logits, 0.3 is not a binary fraction. Neither rule may depend on the rounding of 0.1 + 0.1
  // + 0.1.
  const std::vector<float> ten(10, -1.5f);
  EXPECT_EQ(support(ten, {.temperature = 1, .top_p = 0.3, .top_p_rule = TopPRule::crossing}),
            (IdSet{0, 1, 2, 3}));
  EXPECT_EQ(support(ten, {.temperature = 1, .top_p = 0.3, .top_p_rule = TopPRule::reaching}),
            (IdSet{0, 1, 2}));
}

TEST(Sampler, TopPCountsWhatTopKLeft) {
  // There are ten equal logits and two larger ones. Top-k keeps the two, with probability one half each, so p
  // = 0.4 keeps one.
  std::vector<float> logits(12, 0.0f);
  logits[4] = logits[9] = 1;
  EXPECT_EQ(support(logits, {.temperature = 1, .top_k = 2, .top_p = 0.4}), (IdSet{4}));
}

TEST(Sampler, TopPAgreesWithAFullSort) {
  RandomStream random(3, RandomSite::test);
  std::vector<float> logits(5000);
  for (float& x : logits)
    x = static_cast<float>(std::round(random.normal() * 20) / 10);  // many ties
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  double total = 0;
  for (const float x : logits)
    total += std::exp(double{x});
  for (const double p : {0.1, 0.5, 0.9, 0.999}) {
    IdSet kept;
    double sum = 0;
    for (const int32_t id : order) {
      if (sum > p * total) break;
      kept.insert(id);
      sum += std::exp(double{logits[size_t(id)]});
    }
    double kept_sum = 0;
    for (const int32_t id : kept)
      kept_sum += std::exp(double{logits[size_t(id)]});
    FixedSampler sampler({.temperature = 1, .top_k = 0, .top_p = p}, std::ssize(logits));
    for (uint64_t i = 0; i < 500; ++i) {  // one id too many or too few would shift most samples
      RandomStream stream(11, RandomSite::test, i), same(11, RandomSite::test, i);
      double left = same.uniform() * kept_sum;
      int32_t expected = -1;
      for (const int32_t id : kept) {
        if (left < 0) break;
        expected = id;
        left -= std::exp(double{logits[size_t(id)]});
      }
      EXPECT_EQ(sampler.sample(logits, {}, stream), expected) << p << " " << i;
    }
  }
}

TEST(Sampler, MinPKeepsTokensLikelyRelativeToTheBest) {
  const std::vector<float> logits{0, std::log(0.5f) + 1e-3f, std::log(0.5f) - 1e-3f, -5};
  EXPECT_EQ(support(logits, {.temperature = 1, .min_p = 0.5}), (IdSet{0, 1}));
  EXPECT_EQ(support({1, 1, 0.9f}, {.temperature = 1, .min_p = 1}), (IdSet{0, 1}));  // equality is kept
}

TEST(Sampler, MinPComesAfterTemperature) {
  // At temperature 1, the second id has e^-1 = 0.37 of the probability of the first. At temperature 2, it has
  // e^-0.5 = 0.61.
  EXPECT_EQ(support({1, 0}, {.temperature = 1, .min_p = 0.5}), (IdSet{0}));
  EXPECT_EQ(support({1, 0}, {.temperature = 2, .min_p = 0.5}), (IdSet{0, 1}));
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  const std::vector<int32_t> prompt{0, 0, 0};                                // three occurrences count once
  EXPECT_EQ(greedy({4, 2.5f}, {.repetition_penalty = 2}, {prompt, {}}), 1);  // 4 / 2 < 2.5
  EXPECT_EQ(greedy({4, 1.5f}, {.repetition_penalty = 2}, {prompt, {}}), 0);  // 4 / 2 > 1.5
  EXPECT_EQ(greedy({0.5f, 0.375f}, {.repetition_penalty = 2}, {prompt, {}}), 1);
  EXPECT_EQ(greedy({-1, -1.5f}, {.repetition_penalty = 2}, {prompt, {}}), 1);  // -1 · 2 < -1.5
  EXPECT_EQ(greedy({-1, -2.5f}, {.repetition_penalty = 2}, {prompt, {}}), 0);
  EXPECT_EQ(greedy({4, 2.5f}, {.repetition_penalty = 2}, {{}, prompt}), 1);  // output counts, too
  EXPECT_EQ(greedy({4, 2.5f}, {.repetition_penalty = 2}, {prompt, prompt}), 1);
  EXPECT_EQ(greedy({4, 5}, {.repetition_penalty = 0.5}, {prompt, {}}), 0);  // below 1 it favors repetition
}

TEST(Sampler, PresenceAndFrequencyCountTheOutputOnly) {
  const std::vector<int32_t> twice{0, 0};
  EXPECT_EQ(greedy({3, 2.5f}, {.presence_penalty = 1}, {{}, twice}), 1);   // 3 - 1
  EXPECT_EQ(greedy({3, 1.5f}, {.presence_penalty = 1}, {{}, twice}), 0);   // once, not twice
  EXPECT_EQ(greedy({3, 1.5f}, {.frequency_penalty = 1}, {{}, twice}), 1);  // 3 - 2
  EXPECT_EQ(greedy({3, 0.5f}, {.frequency_penalty = 1}, {{}, twice}), 0);
  EXPECT_EQ(greedy({3, 0.5f}, {.presence_penalty = 1, .frequency_penalty = 1}, {{}, twice}), 1);  // 3 - 1 - 2
  EXPECT_EQ(greedy({3, 2.5f}, {.presence_penalty = 1, .frequency_penalty = 1}, {twice, {}}), 0);
}

TEST(Sampler, PenaltiesLeaveNothingBehind) {
  FixedSampler sampler({.temperature = 0, .repetition_penalty = 2, .frequency_penalty = 1}, 2);
  const std::vector<float> logits{4, 2.5f};
  const std::vector<int32_t> seen{0};
  RandomStream random(1, RandomSite::test);
  EXPECT_EQ(sampler.sample(logits, {seen, seen}, random), 1);
  EXPECT_EQ(sampler.sample(logits, {}, random), 0);
  // There is one occurrence, so 3 - 1 = 2 is compared with 1.5. If it were added to the occurrence above, it
  // would be 3 - 2.
  FixedSampler frequency({.temperature = 0, .frequency_penalty = 1}, 2);
  const std::vector<float> closer{3, 1.5f};
  EXPECT_EQ(frequency.sample(closer, {{}, seen}, random), 0);
  EXPECT_EQ(frequency.sample(closer, {{}, seen}, random), 0);
}

TEST(Sampler, BiasComesBeforeTheRepetitionPenalty) {
  // The result is (-1 + 4) / 2 = 1.5. With the penalty first, it would be -2 + 4 = 2.
  const std::vector<int32_t> prompt{0};
  EXPECT_EQ(greedy({-1, 1.75f}, {.repetition_penalty = 2, .logit_bias = {{0, 4}}}, {prompt, {}}), 1);
}

TEST(Sampler, InfiniteBiasForbidsAndForces) {
  EXPECT_EQ(support({9, 1, 1}, {.temperature = 1, .logit_bias = {{0, -kInf}}}), (IdSet{1, 2}));
  EXPECT_EQ(greedy({9, 1, 2}, {.logit_bias = {{0, -kInf}}}), 2);
  EXPECT_EQ(support({9, 1, 1}, {.temperature = 1, .top_k = 3, .top_p = 0.9, .logit_bias = {{1, kInf}}}),
            (IdSet{1}));
  EXPECT_EQ(support({9, 1, 1}, {.temperature = 1, .logit_bias = {{1, kInf}, {2, kInf}}}), (IdSet{1, 2}));
  EXPECT_EQ(support({9, 1, 1}, {.temperature = 1, .top_k = 2, .logit_bias = {{0, -kInf}, {1, -kInf}}}),
            (IdSet{2}));
  EXPECT_EQ(support({9, 1}, {.temperature = 1, .logit_bias = {{1, 1e300}}}), (IdSet{1}));
  EXPECT_THROW(greedy({1, 2}, {.logit_bias = {{0, -kInf}, {1, -kInf}}}), Error);
}

TEST(Sampler, DrawsByInverseCumulativeProbabilityInOrderOfIds) {
  // The probabilities are 1/4, 1/2, 1/4 in the order of ids, independent of their rank.
  const std::vector<float> logits{0, std::log(2.0f), 0};
  FixedSampler sampler(SamplingParams::neutral(), 3);
  for (uint64_t i = 0; i < 200; ++i) {
    RandomStream random(5, RandomSite::test, i), same(5, RandomSite::test, i);
    const double u = same.uniform();
    EXPECT_EQ(sampler.sample(logits, {}, random), u < 0.25 ? 0 : u < 0.75 ? 1 : 2) << u;
  }
}

TEST(Sampler, TemperatureScalesTheDistribution) {
  // At temperature 0.5 the weights are 1 : e^-2, and at temperature 2 they are 1 : e^-0.5.
  for (const double temperature : {0.5, 2.0}) {
    FixedSampler sampler({.temperature = temperature}, 2);
    const double first = 1 / (1 + std::exp(-1 / temperature));
    for (uint64_t i = 0; i < 500; ++i) {
      RandomStream random(6, RandomSite::test, i), same(6, RandomSite::test, i);
      EXPECT_EQ(sampler.sample(std::vector<float>{1, 0}, {}, random), same.uniform() < first ? 0 : 1);
    }
  }
}

TEST(Sampler, ExtremeNumbersStayDefined) {
  EXPECT_EQ(support({1, 2, 2}, {.temperature = 5e-324}), (IdSet{1, 2}));
  EXPECT_EQ(support({1, 2, 3}, {.temperature = 1e300}), (IdSet{0, 1, 2}));
  EXPECT_EQ(support({3e38f, -3e38f}, {.temperature = 0.7, .top_p = 0.5}), (IdSet{0}));
  const std::vector<int32_t> both{0, 1};
  EXPECT_EQ(support({3e38f, -3e38f}, {.temperature = 1, .repetition_penalty = 1e6}, {both, both}),
            (IdSet{0}));
}

TEST(Sampler, RejectsLogitsThatAreNotNumbers) {
  for (const double bad : {kNan, kInf, -kInf}) {
    const std::string error = test::error_of([&] { greedy({1, static_cast<float>(bad), 2}, {}); });
    EXPECT_TRUE(test::names(error, {fmt::format("found {}", static_cast<float>(bad)), 1})) << error;
    EXPECT_THROW(support({1, static_cast<float>(bad), 2}, {.temperature = 1, .top_k = 2}), Error);
  }
}

TEST(Sampler, InvalidParametersNameTheFlag) {
  const auto refuses = [](const SamplingParams& params, const char* parameter,
                          std::initializer_list<test::Fact> facts = {}) {
    return test::refused_parameter([&] { validate(params, 10); }, parameter, facts);
  };
  for (const double x : {-0.1, kInf, kNan})
    EXPECT_TRUE(refuses({.temperature = x}, "temperature")) << x;
  for (const double x : {0.0, -1.0, 1.01, kNan, kInf})
    EXPECT_TRUE(refuses({.top_p = x}, "top_p")) << x;
  for (const double x : {-0.1, 1.1, kNan})
    EXPECT_TRUE(refuses({.min_p = x}, "min_p")) << x;
  for (const double x : {0.0, -1.0, kInf, kNan})
    EXPECT_TRUE(refuses({.repetition_penalty = x}, "repetition_penalty")) << x;
  for (const double x : {kInf, -kInf, kNan}) {
    EXPECT_TRUE(refuses({.presence_penalty = x}, "presence_penalty")) << x;
    EXPECT_TRUE(refuses({.frequency_penalty = x}, "frequency_penalty")) << x;
  }
  EXPECT_TRUE(refuses({.top_k = -1}, "top_k", {0, -1}));
  EXPECT_TRUE(refuses({.logit_bias = {{10, 1}}}, "logit_bias", {0, 9, 10}));
  EXPECT_TRUE(refuses({.logit_bias = {{-1, 1}}}, "logit_bias", {0, 9, -1}));
  EXPECT_TRUE(refuses({.logit_bias = {{1, kNan}}}, "logit_bias", {1, "nan"}));
  EXPECT_NO_THROW(validate({.temperature = 0, .top_k = 40, .top_p = 0.95, .logit_bias = {{9, -kInf}}}, 10));
  EXPECT_ERROR(parse_top_p_rule("cross"), ErrorCode::invalid_argument);
  EXPECT_EQ(parse_top_p_rule("reaching"), TopPRule::reaching);
}

// The ranges of the definitions and the checks agree with the fields of the struct.
TEST(SamplingParams, AreAllVisitedAndValid) {
  std::set<std::string> names;
  SamplingParams neutral = SamplingParams::neutral();
  gptcpp::visit_sampling(neutral, [&](const SamplingField& field, const auto& value) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_LE(field.min, field.request_max) << field.name;
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      if (!std::isnan(field.off)) {
        EXPECT_EQ(static_cast<double>(value), field.off) << field.name;
      }
    }
  });
  EXPECT_EQ(names.size(), 9u);
  EXPECT_NO_THROW(validate(SamplingParams(), 10));
  EXPECT_NO_THROW(validate(neutral, 10));
}

TEST(Select, WeightsAreExponentials) {
  std::vector<float> values, weights(20000);
  std::vector<double> sums(static_cast<size_t>(select_blocks(20000)));
  for (int i = 0; i < 20000; ++i)
    values.push_back(static_cast<float>(-i) * 0.004f);
  for (const double temperature : {0.5, 1.0, 1.7}) {
    const double total = softmax_weights(values, 0, temperature, weights.data(), sums.data());
    EXPECT_EQ(weights[0], 1);
    double exact_total = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double exact = std::exp(values[i] / temperature);
      exact_total += exact;
      // The error of an argument of 80 is 4e-6.
      ASSERT_NEAR(weights[i], exact, exact * (2e-7 - 1e-7 * values[i] / temperature) + 2e-38) << values[i];
    }
    EXPECT_NEAR(total, exact_total, exact_total * 1e-6);
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0.0), total);
  }
}

TEST(Logprobs, AreTheLogSoftmaxOfRawLogits) {
  const std::vector<float> logits{1, 3, 2, 3};
  const double log_sum = std::log(std::exp(1.0) + 2 * std::exp(3.0) + std::exp(2.0));
  const Logprobs result = logprobs_of(logits, 2, 3);
  EXPECT_EQ(result.chosen.id, 2);
  EXPECT_NEAR(result.chosen.logprob, 2 - log_sum, 1e-14);
  ASSERT_EQ(result.top.size(), 3u);
  EXPECT_EQ(result.top[0].id, 1);  // ties by lowest id
  EXPECT_EQ(result.top[1].id, 3);
  EXPECT_EQ(result.top[2].id, 2);
  EXPECT_NEAR(result.top[0].logprob, 3 - log_sum, 1e-14);
  EXPECT_EQ(logprobs_of(logits, 0, 1).top.size(), 1u);  // excludes ties
  EXPECT_EQ(logprobs_of(logits, 0, 0).top.size(), 0u);
  EXPECT_EQ(logprobs_of(logits, 0, 99).top.size(), 4u);
}

TEST(Logprobs, StayFiniteForExtremeLogits) {
  EXPECT_NEAR(logprobs_of(std::vector<float>{3e38f, -3e38f}, 0, 0).chosen.logprob, 0, 1e-12);
  EXPECT_THROW(logprobs_of(std::vector<float>{1, NAN}, 0, 0), Error);
}

// Each row of a call has separate parameters, history and log-probabilities. Other rows in the call do not
// matter.
TEST(Sampler, DrawsForManyAsForEachAlone) {
  constexpr int64_t kVocab = 500, kRows = 12;
  RandomStream random(5, RandomSite::test);
  std::vector<float> logits(kVocab * kRows);
  for (float& x : logits)
    x = static_cast<float>(random.below(60)) / 8;  // many ties
  const std::vector<int32_t> ids{3, 3, 70, 499, 3};
  const SamplingParams params[] = {{.temperature = 0},
                                   {.top_k = 20, .repetition_penalty = 1.4, .frequency_penalty = 0.5},
                                   {.top_k = 0, .top_p = 0.6, .logit_bias = {{1, 5}, {70, -kInf}}},
                                   {.top_k = 3, .min_p = 0.3, .logit_bias = {{7, kInf}, {8, kInf}}}};
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    Sampler sampler(test::backend(pool, Isa::ref), kVocab);
    const TensorView host = make_view(logits.data(), {kRows, kVocab});
    Buffer memory(logits.size() * sizeof(float), "logits", test::device());
    const TensorView rows = memory.view(0, DType::f32, host.dims());
    copy_elements(host, rows);
    std::vector<Draw> draws;
    for (uint64_t i = 0; i < kRows; ++i)
      draws.push_back({.params = &params[i % 4],
                       .history = {std::span(ids).first(i % 3), std::span(ids).subspan(i % 3)},
                       .random = RandomStream(1, RandomSite::test, i),
                       .logprobs = static_cast<int64_t>(i % 5) - 1});
    std::vector<Draw> asked = draws;
    sampler.draw(rows, draws);
    for (size_t i = 0; i < kRows; ++i) {
      const auto row = std::span(logits).subspan(i * kVocab, kVocab);
      const Draw alone = FixedSampler(*asked[i].params, kVocab)
                             .draw(row, asked[i].history, asked[i].random, asked[i].logprobs);
      EXPECT_EQ(draws[i].id, alone.id) << i;
      EXPECT_EQ(draws[i].result.chosen.logprob, alone.result.chosen.logprob) << i;
      EXPECT_EQ(draws[i].result.top.size(), alone.result.top.size()) << i;
    }
  }
}

// A call waits once for the candidates and all scores, and once for the log-probabilities of the chosen
// tokens. The number of rows does not matter.
TEST(Sampler, WaitsForADeviceTwiceInACall) {
  constexpr int64_t kVocab = 300, kRows = 8;
  RandomStream random(6, RandomSite::test);
  std::vector<float> logits(kVocab * kRows);
  for (float& x : logits)
    x = static_cast<float>(random.normal());
  const SamplingParams params[] = {
      SamplingParams::neutral(), {.top_k = 0, .top_p = 0.9, .logit_bias = {{3, 2}}}, {.top_k = 5}};
  ThreadPool pool(2);
  const auto draw = [&](const Backend& backend, const TensorView& rows) {
    Sampler sampler(backend, kVocab);
    std::vector<Draw> draws;
    for (uint64_t i = 0; i < kRows; ++i)
      draws.push_back({.params = &params[i % 3],
                       .random = RandomStream(1, RandomSite::test, i),
                       .logprobs = static_cast<int64_t>(i % 2)});
    sampler.draw(rows, draws);
    return draws;
  };
  test::ShadowDevice& shadow = test::shadow_device();
  const test::ShadowKernels kernels(kernel_table(Isa::ref));
  const TensorView host = make_view(logits.data(), {kRows, kVocab});
  Buffer memory(logits.size() * sizeof(float), "logits", &shadow);
  const TensorView on_device = memory.view(0, DType::f32, host.dims());
  copy_elements(host, on_device);
  const size_t waits = shadow.waits();
  const std::vector<Draw> found =
      draw({pool, kernels, std::shared_ptr<Device>(&shadow, [](Device*) {})}, on_device);
  EXPECT_EQ(shadow.waits(), waits + 2);
  const std::vector<Draw> expected = draw(host_backend(pool, Isa::ref), host);
  for (size_t i = 0; i < kRows; ++i) {
    EXPECT_EQ(found[i].error, "") << i;
    EXPECT_EQ(found[i].id, expected[i].id) << i;
    EXPECT_EQ(found[i].result.chosen.id, expected[i].id) << i;
    EXPECT_EQ(found[i].result.chosen.logprob, expected[i].result.chosen.logprob) << i;
  }
}

}  // namespace
}  // namespace gpt
