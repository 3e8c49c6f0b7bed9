#include "infer/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "support/error_of.h"
#include "support/names.h"
#include "unit/infer/fake_decoder.h"
#include "unit/infer/fixed_sampler.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;
using Prompts = std::vector<Ids>;
using test::error_of;
using test::Fact;
using test::names;

constexpr int64_t kVocab = 23;
constexpr int64_t kContext = 8;

// Generates one sample by definition, without a cache, slots or chunks.
Ids naive(const FakeDecoder& model, const Ids& prompt, uint64_t number, const GenerateOptions& o) {
  FixedSampler sampler(o.sampling, model.vocab_size());
  Ids all = prompt, output;
  const auto n_ctx = static_cast<size_t>(model.n_ctx());
  while (std::ssize(output) < o.max_tokens) {
    if (o.context == ContextPolicy::stop && all.size() > n_ctx) break;
    std::span<const int32_t> view = all;
    if (o.context == ContextPolicy::crop && view.size() > n_ctx) view = view.last(n_ctx);
    RandomStream random(o.seed, RandomSite::sample, output.size(), number);
    const int32_t id = sampler.sample(model.logits_of(view), {prompt, output}, random);
    all.push_back(id);
    output.push_back(id);
    if (std::find(o.eos_ids.begin(), o.eos_ids.end(), id) != o.eos_ids.end()) break;
  }
  return output;
}

std::vector<Completion> generate(FakeDecoder& decoder, const Prompts& prompts, const GenerateOptions& options,
                                 const OnToken& on = {}) {
  return gpt::generate(decoder, prompts, options, on);
}

Completion one(FakeDecoder& decoder, const Ids& prompt, const GenerateOptions& options,
               const OnToken& on = {}) {
  return generate(decoder, Prompts{prompt}, options, on).at(0);
}

struct Shape {
  int slots;
  int64_t chunk;
};
std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.slots << "_slots_" << s.chunk << "_tokens";
}

class GenerateShapes : public testing::TestWithParam<Shape> {};

TEST_P(GenerateShapes, EverySampleIsTheNaiveOneUnderEveryPolicy) {
  const auto [slots, chunk] = GetParam();
  const Prompts prompts{{1, 2, 3}, {4}, {5, 6, 7, 8, 9, 10, 11, 12}, {1, 2, 3}, {22, 0}};
  for (const auto policy : {ContextPolicy::stop, ContextPolicy::crop, ContextPolicy::slide}) {
    for (const int64_t n : {1, 2, 3}) {
      FakeDecoder decoder(kVocab, kContext, slots, true);
      GenerateOptions options{.max_tokens = 20,
                              .sampling = {.temperature = 1, .top_k = 0, .repetition_penalty = 1.1},
                              .seed = 99,
                              .n = n};
      options.eos_ids = {7};  // so that samples end at different times
      options.context = policy;
      options.prefill_chunk = chunk;
      const auto results = generate(decoder, prompts, options);
      ASSERT_EQ(results.size(), prompts.size() * static_cast<size_t>(n));
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].prompt, static_cast<int64_t>(i) / n);
        EXPECT_EQ(results[i].sample, static_cast<int64_t>(i) % n);
        EXPECT_EQ(results[i].ids, naive(decoder, prompts[i / static_cast<size_t>(n)], i, options)) << i;
      }
      EXPECT_LE(decoder.largest_batch, chunk);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Slots, GenerateShapes,
                         testing::Values(Shape{1, 512}, Shape{2, 512}, Shape{3, 5}, Shape{4, 3}, Shape{7, 1},
                                         Shape{16, 512}, Shape{64, 4}),
                         [](const auto& p) { return testing::PrintToString(p.param); });

TEST(Generate, PromptsLongerThanTheContextCropOrSlide) {
  Ids prompt;
  for (int32_t i = 0; i < 3 * kContext + 1; ++i)
    prompt.push_back(i % int32_t{kVocab});
  for (const auto policy : {ContextPolicy::crop, ContextPolicy::slide}) {
    for (const int64_t chunk : {1, 3, 8, 512}) {
      FakeDecoder decoder(kVocab, kContext, 2, true);
      GenerateOptions options{.max_tokens = 12, .seed = 4};
      options.context = policy;
      options.prefill_chunk = chunk;
      EXPECT_EQ(one(decoder, prompt, options).ids, naive(decoder, prompt, 0, options));
    }
  }
}

TEST(Generate, CropFeedsAnewOnlyOnceTheContextIsFull) {
  FakeDecoder decoder(kVocab, kContext, 1);
  GenerateOptions options{.max_tokens = 5, .context = ContextPolicy::crop};
  one(decoder, {1, 2, 3, 4}, options);
  EXPECT_EQ(decoder.tokens_fed, 8);  // the fifth token comes from a context that is exactly full
  decoder.forget();
  options.max_tokens = 7;
  one(decoder, {1, 2, 3, 4}, options);
  EXPECT_EQ(decoder.tokens_fed, 8 + 2 * kContext);
}

TEST(Generate, CropAndSlideDiffer) {
  FakeDecoder decoder(kVocab, kContext, 1, true);
  GenerateOptions options{.max_tokens = 30, .context = ContextPolicy::crop};
  const Ids cropped = one(decoder, {1}, options).ids;
  options.context = ContextPolicy::slide;
  const Ids slid = one(decoder, {1}, options).ids;
  EXPECT_TRUE(std::equal(slid.begin(), slid.begin() + kContext, cropped.begin()));
  EXPECT_NE(slid, cropped);
}

TEST(Generate, StopsWhenTheContextIsFull) {
  FakeDecoder decoder(kVocab, kContext, 1);
  const Completion full = one(decoder, {1, 2, 3}, {.max_tokens = 100});
  EXPECT_EQ(full.finish, FinishReason::context);
  EXPECT_EQ(full.ids.size(), 6u);  // five more fit; the logits after the last of them give a sixth
  const Completion exact = one(decoder, {1, 2, 3, 4, 5, 6, 7, 8}, {.max_tokens = 100});
  EXPECT_EQ(exact.finish, FinishReason::context);
  EXPECT_EQ(exact.ids.size(), 1u);
  EXPECT_EQ(one(decoder, {1, 2, 3}, {.max_tokens = 6}).finish, FinishReason::length);
}

TEST(Generate, SamplesOfAPromptShareThePrefill) {
  FakeDecoder decoder(kVocab, 64, 4);
  const Ids prompt(50, 3);
  generate(decoder, Prompts{prompt}, {.max_tokens = 2, .n = 4});
  // Each further sample feeds the last token again for its first logits.
  EXPECT_EQ(decoder.tokens_fed, 50 + 3 + 4);
  decoder.forget();
  generate(decoder, Prompts{prompt}, {.max_tokens = 2, .n = 40});  // more samples than slots
  EXPECT_EQ(decoder.tokens_fed, 50 + 39 + 40);
}

TEST(Generate, SamplesDiffer) {
  FakeDecoder decoder(kVocab, 64, 4);
  const auto results = generate(decoder, Prompts{{1}, {1}}, {.max_tokens = 10, .n = 2});
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(results[i].ids, results[j].ids);
  }
  const auto other_seed = generate(decoder, Prompts{{1}, {1}}, {.max_tokens = 10, .seed = 1, .n = 2});
  EXPECT_NE(results[0].ids, other_seed[0].ids);
}

TEST(Generate, FirstSampleRepeatsPartOfALargerRun) {
  FakeDecoder decoder(kVocab, 64, 4);
  const auto all = generate(decoder, Prompts{{1, 2}}, {.max_tokens = 10, .seed = 5, .n = 6});
  GenerateOptions options{.max_tokens = 10, .seed = 5};
  options.first_sample = 4;
  EXPECT_EQ(one(decoder, {1, 2}, options).ids, all[4].ids);
}

TEST(Generate, GreedyFollowsTheLargestLogit) {
  // The model always predicts the successor of the last id.
  FakeDecoder decoder(5, 64, 2, false, [](std::span<const int32_t> window, size_t) {
    std::vector<float> row(5, 0.0f);
    row[static_cast<size_t>((window.back() + 1) % 5)] = 1;
    return row;
  });
  GenerateOptions options{.max_tokens = 7, .sampling = {.temperature = 0}};
  EXPECT_EQ(one(decoder, {2}, options).ids, (Ids{3, 4, 0, 1, 2, 3, 4}));
  options.eos_ids = {1, 9999};  // an id beyond the vocabulary never occurs
  Completion ended = one(decoder, {2}, options);
  EXPECT_EQ(ended.ids, (Ids{3, 4, 0, 1}));
  EXPECT_EQ(ended.finish, FinishReason::eos);
  options.stop_ids = {0};
  ended = one(decoder, {2}, options);
  EXPECT_EQ(ended.ids, (Ids{3, 4, 0}));
  EXPECT_EQ(ended.finish, FinishReason::stop);
  options.eos_ids = {0};  // EOS wins, even at the last token allowed
  options.max_tokens = 3;
  EXPECT_EQ(one(decoder, {2}, options).finish, FinishReason::eos);
}

TEST(Generate, EosInThePromptEndsNothing) {
  FakeDecoder decoder(kVocab, 64, 1);
  GenerateOptions options{.max_tokens = 5,
                          .sampling = {.temperature = 1, .top_k = 0, .logit_bias = {{7, -1e9}}}};
  options.eos_ids = {7};
  EXPECT_EQ(one(decoder, {7, 7}, options).ids.size(), 5u);
}

TEST(Generate, CallbackSeesEveryTokenInOrder) {
  FakeDecoder decoder(kVocab, 64, 3);
  std::map<std::pair<int64_t, int64_t>, Ids> streamed;
  std::map<std::pair<int64_t, int64_t>, FinishReason> finished;
  GenerateOptions options{.max_tokens = 9, .n = 2};
  options.eos_ids = {3, 4};
  const auto results =
      generate(decoder, Prompts{{1}, {2, 3}, {4, 5, 6}}, options, [&](const TokenEvent& event) {
        EXPECT_EQ(event.logprobs, nullptr);
        EXPECT_FALSE(finished.contains({event.prompt, event.sample}));
        streamed[{event.prompt, event.sample}].push_back(event.id);
        if (event.finish) finished[{event.prompt, event.sample}] = *event.finish;
        return true;
      });
  for (const Completion& result : results) {
    EXPECT_EQ(streamed[std::pair(result.prompt, result.sample)], result.ids);
    EXPECT_EQ(finished.at(std::pair(result.prompt, result.sample)), result.finish);
  }
}

TEST(Generate, CallbackEndsOneSampleAndLeavesTheOthersAlone) {
  FakeDecoder decoder(kVocab, 64, 2);
  const Prompts prompts{{1}, {2}, {3}};
  const auto whole = generate(decoder, prompts, {.max_tokens = 8});
  int seen = 0;
  const auto results = generate(decoder, prompts, {.max_tokens = 8},
                                [&](const TokenEvent& event) { return event.prompt != 1 || ++seen < 3; });
  EXPECT_EQ(results[0].ids, whole[0].ids);
  EXPECT_EQ(results[2].ids, whole[2].ids);
  EXPECT_EQ(results[1].ids, Ids(whole[1].ids.begin(), whole[1].ids.begin() + 3));
  EXPECT_EQ(results[1].finish, FinishReason::stop);
  EXPECT_EQ(results[0].finish, FinishReason::length);
}

TEST(Generate, CallbackStopWinsOverLengthButNotOverEos) {
  FakeDecoder decoder(kVocab, 64, 1);
  const auto stop = [](const TokenEvent&) { return false; };
  GenerateOptions options{.max_tokens = 1};
  EXPECT_EQ(one(decoder, {1}, options, stop).finish, FinishReason::stop);
  for (int32_t id = 0; id < kVocab; ++id)
    options.eos_ids.push_back(id);
  EXPECT_EQ(one(decoder, {1}, options, stop).finish, FinishReason::eos);
}

TEST(Generate, LogprobsAreTheModelsOwn) {
  FakeDecoder decoder(kVocab, 64, 2);
  GenerateOptions options{.max_tokens = 4,
                          .sampling = {.temperature = 0.5, .top_k = 3, .presence_penalty = 2}};
  options.logprobs = 2;
  size_t events = 0;
  const Completion result = one(decoder, {1, 2}, options, [&](const TokenEvent& event) {
    ++events;
    return event.logprobs != nullptr && event.logprobs->chosen.id == event.id;
  });
  EXPECT_EQ(events, 4u);
  ASSERT_EQ(result.logprobs.size(), 4u);
  Ids all{1, 2};
  for (size_t i = 0; i < 4; ++i) {
    const Logprobs expected = logprobs_of(decoder.logits_of(all), result.ids[i], 2);
    EXPECT_EQ(result.logprobs[i].chosen.id, result.ids[i]);
    EXPECT_EQ(result.logprobs[i].chosen.logprob, expected.chosen.logprob);
    ASSERT_EQ(result.logprobs[i].top.size(), 2u);
    EXPECT_EQ(result.logprobs[i].top[0].id, expected.top[0].id);
    EXPECT_EQ(result.logprobs[i].top[1].logprob, expected.top[1].logprob);
    all.push_back(result.ids[i]);
  }
  options.logprobs = -1;
  EXPECT_TRUE(one(decoder, {1, 2}, options).logprobs.empty());
}

TEST(Generate, NothingToDo) {
  FakeDecoder decoder(kVocab, kContext, 2);
  EXPECT_TRUE(generate(decoder, {}, {}).empty());
  const auto results = generate(decoder, Prompts{{1}, {2}}, {.max_tokens = 0, .n = 2});
  ASSERT_EQ(results.size(), 4u);
  EXPECT_TRUE(results[3].ids.empty());
  EXPECT_EQ(results[3].finish, FinishReason::length);
  EXPECT_EQ(decoder.tokens_fed, 0);
}

TEST(Generate, RejectsBadPromptsBeforeGenerating) {
  FakeDecoder decoder(kVocab, kContext, 2);
  const auto message = [&](const Prompts& prompts) {
    return error_of([&] { generate(decoder, prompts, {}); });
  };
  EXPECT_TRUE(names(message({{1}, {}}), {"prompt 2", "BOS"}));
  EXPECT_TRUE(names(message({{1, kVocab}}), {0, 22, 23, 1}));
  EXPECT_TRUE(names(message({{-1}}), {22, -1, 0}));
  EXPECT_TRUE(names(message({Ids(9, 1)}), {8, 9, "`policy` crop"}));
  EXPECT_FALSE(names(message({Ids(9, 1)}), {"slide"})) << "not for this decoder";
  EXPECT_EQ(decoder.tokens_fed, 0);
}

TEST(Generate, RejectsBadOptions) {
  FakeDecoder decoder(kVocab, kContext, 2);
  const auto refuses = [&](const GenerateOptions& options, const char* parameter,
                           std::initializer_list<Fact> facts) {
    return test::refused_parameter([&] { generate(decoder, Prompts{{1}}, options); }, parameter, facts);
  };
  EXPECT_TRUE(refuses({.max_tokens = -1}, "max_tokens", {-1}));
  EXPECT_TRUE(refuses({.n = 0}, "n", {1, 0}));
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(refuses({.n = most}, "n", {1, most}));
  EXPECT_TRUE(refuses({.logprobs = -2}, "logprobs", {-2}));
  EXPECT_TRUE(refuses({.prefill_chunk = 0}, "prefill_chunk", {0}));
  GenerateOptions beyond;
  beyond.stop_ids.push_back(kVocab);
  EXPECT_TRUE(refuses(beyond, "", {0, 22, 23}));
  EXPECT_TRUE(refuses({.sampling = {.top_p = 0}}, "top_p", {0}));
  EXPECT_TRUE(refuses({.context = ContextPolicy::slide}, "policy", {"'slide'", 8}));
  EXPECT_ERROR(parse_context_policy("wrap"), ErrorCode::invalid_argument);
  EXPECT_EQ(parse_context_policy("slide"), ContextPolicy::slide);
}

TEST(Generate, LogitsThatAreNotNumbersAreAnError) {
  FakeDecoder decoder(3, 64, 1, false, [](std::span<const int32_t>, size_t length) {
    return std::vector<float>{0, length == 3 ? NAN : 1.0f, 0};
  });
  EXPECT_THROW(one(decoder, {1}, {.max_tokens = 5}), Error);
}

TEST(Generate, WhatTheCallbackThrowsPassesThrough) {
  FakeDecoder decoder(kVocab, 64, 1);
  EXPECT_THROW(one(decoder, {1}, {}, [](const TokenEvent&) -> bool { throw std::runtime_error("enough"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace gpt
