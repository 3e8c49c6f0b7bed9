#include "infer/engine.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "support/names.h"
#include "unit/infer/fake_decoder.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kVocab = 19;
constexpr int64_t kContext = 24;

Request request(Ids prompt, int64_t max_tokens = 1) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  return r;
}

struct Result {
  Ids ids;
  std::vector<double> logprobs;
  std::optional<FinishReason> finish;

  bool operator==(const Result&) const = default;
};

void take(const Event& event, Result& result) {
  EXPECT_FALSE(result.finish.has_value()) << "an event after the last";
  if (event.id >= 0) result.ids.push_back(event.id);
  if (event.logprobs) {
    EXPECT_EQ(event.logprobs->chosen.id, event.id);
    result.logprobs.push_back(event.logprobs->chosen.logprob);
    for (const TokenLogprob& top : event.logprobs->top)
      result.logprobs.push_back(top.logprob);
  }
  result.finish = event.finish;
}

// Runs a request alone, with one slot, one row per step if possible, and no cached prefix.
Result alone(const Request& request, FakeDecoder::Model model = {}) {
  FakeDecoder decoder(kVocab, kContext, 1, true, std::move(model));
  Engine engine(decoder, {.step_rows = 1});
  engine.submit(request);
  Result result;
  while (!engine.idle()) {
    for (const Event& event : engine.step())
      take(event, result);
  }
  return result;
}

class Random {
 public:
  explicit Random(uint64_t seed) : stream_(seed, RandomSite::test) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(stream_.below(static_cast<uint64_t>(n))); }
  Ids ids(int64_t n) {
    Ids ids;
    for (int64_t i = 0; i < n; ++i)
      ids.push_back(static_cast<int32_t>(below(kVocab)));
    return ids;
  }

 private:
  RandomStream stream_;
};

// Returns random requests of every kind, many with a common prefix.
Request random_request(Random& random, uint64_t number) {
  static const Ids kShared = Random(77).ids(kContext);
  Request r;
  r.context = static_cast<ContextPolicy>(random.below(3));
  r.prompt.assign(kShared.begin(), kShared.begin() + random.below(kContext / 2));
  const Ids own = random.ids(1 + random.below(r.context == ContextPolicy::stop ? 8 : 40));
  r.prompt.insert(r.prompt.end(), own.begin(), own.end());
  r.max_tokens = 1 + random.below(20);
  r.sampling.temperature = random.below(3) == 0 ? 0 : 1.5;
  r.sampling.top_k = random.below(2) * 5;
  r.sampling.frequency_penalty = static_cast<double>(random.below(2));
  r.seed = static_cast<uint64_t>(random.below(3));
  r.number = number;
  r.logprobs = random.below(4) - 1;
  if (random.below(2) == 0) r.eos_ids = {3};
  if (random.below(2) == 0) r.stop_ids = {4};
  return r;
}

struct Setting {
  int slots;
  int64_t step_rows, memory;
  int threads;
};
std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.slots << "_slots_" << s.step_rows << "_rows_" << s.memory << "_tokens_" << s.threads
             << "_threads";
}

class EngineSettings : public testing::TestWithParam<Setting> {};

// Requests start and end at random, and each gets the same result as alone.
TEST_P(EngineSettings, CompanyChangesNothing) {
  const Setting setting = GetParam();
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    FakeDecoder decoder(kVocab, kContext, setting.slots, true, {}, setting.threads);
    decoder.memory = setting.memory;
    Engine engine(decoder, {.step_rows = setting.step_rows});
    std::vector<Request> requests;
    std::map<int64_t, Result> results;
    std::set<int64_t> cancelled;
    while (requests.size() < 30 || !engine.idle()) {
      for (int64_t n = random.below(3); requests.size() < 30 && n > 0; --n) {
        requests.push_back(random_request(random, requests.size()));
        EXPECT_EQ(engine.submit(requests.back()), std::ssize(requests) - 1);
      }
      if (random.below(9) == 0 && !requests.empty()) {
        const int64_t victim = random.below(std::ssize(requests));
        const bool known = !results[victim].finish && !cancelled.contains(victim);
        EXPECT_EQ(engine.cancel(victim), known);
        if (known) cancelled.insert(victim);
      }
      if (engine.idle()) continue;
      for (const Event& event : engine.step()) {
        EXPECT_FALSE(cancelled.contains(event.request));
        take(event, results[event.request]);
      }
      EXPECT_LE(engine.running(), std::min<int64_t>(setting.slots, setting.step_rows));
    }
    EXPECT_LE(decoder.largest_batch, setting.step_rows);
    for (size_t i = 0; i < requests.size(); ++i) {
      const Result expected = alone(requests[i]);
      Result& result = results[static_cast<int64_t>(i)];
      if (cancelled.contains(static_cast<int64_t>(i))) {  // compare the prefix
        ASSERT_LE(result.ids.size(), expected.ids.size());
        EXPECT_TRUE(std::equal(result.ids.begin(), result.ids.end(), expected.ids.begin()));
      } else {
        EXPECT_EQ(result, expected) << "seed " << seed << ", request " << i;
      }
    }
    EXPECT_EQ(decoder.available_blocks(), decoder.memory) << "memory that was not released";
  }
}

// A sequence with a sliding window takes up to 12 cache pages.
INSTANTIATE_TEST_SUITE_P(Settings, EngineSettings,
                         testing::Values(Setting{1, 512, 1000, 1}, Setting{2, 3, 1000, 1},
                                         Setting{4, 512, 20, 1}, Setting{8, 16, 20, 3},
                                         Setting{8, 512, 30, 1}, Setting{16, 64, 1000, 2},
                                         Setting{16, 5, 40, 1}, Setting{64, 512, 25, 1}),
                         [](const auto& p) { return testing::PrintToString(p.param); });

TEST(Engine, EveryStepDecodesAllAndFillsUpWithPrompts) {
  FakeDecoder decoder(kVocab, 64, 4);
  Engine engine(decoder, {.step_rows = 10});
  engine.submit(request(Ids(3, 1), 20));
  EXPECT_EQ(engine.step().size(), 1u);
  engine.submit(request(Ids(25, 2), 20));
  engine.submit(request(Ids(4, 3), 20));
  EXPECT_EQ(engine.step().size(), 1u);  // 1 + 9 of the long prompt
  EXPECT_EQ(engine.step().size(), 1u);  // 1 + 9
  EXPECT_EQ(engine.counts().computed, 3 + 10 + 10);
  EXPECT_EQ(engine.step().size(), 2u);  // 1 + 7, the first token of the long prompt, and 2 of the short one
  EXPECT_EQ(engine.step().size(), 3u);  // 1 + 1 + 2
  EXPECT_EQ(engine.counts().computed, 3 + 10 + 10 + 10 + 4);
}

TEST(Engine, PromptsGetAsManyRowsAsTheyMayBesideOthers) {
  FakeDecoder decoder(kVocab, kContext, 3, true);
  Engine engine(decoder, {.step_rows = 16});
  engine.limit_prompts(4);
  const auto step = [&] {
    engine.step();
    const Engine::Work& work = engine.last_work();
    return std::array{work.generating, work.prompt_rows, work.prompts};
  };
  using Work = std::array<int64_t, 3>;
  engine.submit(request(Ids(9, 1), 20));
  EXPECT_EQ(step(), (Work{0, 9, 1})) << "alone it has all of the step";
  engine.submit(request(Ids(10, 2), 1));
  EXPECT_EQ(step(), (Work{1, 4, 1}));
  engine.limit_prompts(0);
  EXPECT_EQ(step(), (Work{1, 0, 1})) << "it waits";
  engine.submit(request(Ids(3, 5), 1));
  EXPECT_EQ(step(), (Work{1, 0, 2})) << "and new ones too";
  engine.limit_prompts(100);
  EXPECT_EQ(step(), (Work{1, 9, 2}));
}

TEST(Engine, ACommonBeginningIsComputedOnce) {
  FakeDecoder decoder(kVocab, 64, 8);
  Engine engine(decoder, {.step_rows = 16});
  Ids prompt(40, 5);
  for (int32_t i = 0; i < 6; ++i) {
    prompt.back() = i;
    engine.submit(request(prompt));
  }
  while (!engine.idle()) {
    for (const Event& event : engine.step())
      EXPECT_EQ(event.reused, event.request == 0 ? 0 : 39);
  }
  EXPECT_EQ(engine.counts().computed, 40 + 5);
  EXPECT_EQ(engine.counts().reused, 5 * 39);
  // A request does not wait for a common prefix of only one token.
  for (int32_t i = 0; i < 4; ++i)
    engine.submit(request({9, i, i, i}, 1));
  EXPECT_EQ(engine.step().size(), 4u);
}

TEST(Engine, TheYoungestGivesWayAndComesBack) {
  FakeDecoder decoder(kVocab, 32, 4);
  decoder.memory = 9;  // pages of 4 ids; a full sequence takes 8
  Engine engine(decoder, {});
  std::vector<int64_t> order;
  for (int32_t i = 0; i < 3; ++i)
    engine.submit(request({i, i}, 30));
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      if (event.finish) order.push_back(event.request);
    }
  }
  EXPECT_GT(engine.counts().preemptions, 0);
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2}));
}

TEST(Engine, AnErrorEndsOneRequestAlone) {
  FakeDecoder decoder(3, 64, 4);
  Engine engine(decoder, {});
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  engine.submit(request({1}, 3));
  engine.submit(
      {.prompt = {1}, .max_tokens = 3, .sampling = {.logit_bias = {{0, kNever}, {1, kNever}, {2, kNever}}}});
  std::map<int64_t, FinishReason> finish;
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      if (event.finish) finish[event.request] = *event.finish;
      if (event.finish == FinishReason::error) {
        EXPECT_EQ(event.id, -1);
        EXPECT_TRUE(test::names(event.error, {"logit_bias", 3}));
      }
    }
  }
  EXPECT_EQ(finish[0], FinishReason::length);
  EXPECT_EQ(finish[1], FinishReason::error);
}

TEST(Engine, RefusesWhatItCannotRun) {
  FakeDecoder decoder(kVocab, kContext, 2);
  Engine engine(decoder, {});
  EXPECT_THROW(engine.submit(request({})), Error);
  EXPECT_THROW(engine.submit(request({kVocab})), Error);
  EXPECT_THROW(engine.submit(request(Ids(kContext + 1, 0))), Error);
  EXPECT_ERROR(engine.submit(request({1}, 0)), ErrorCode::invalid_argument);
  const auto expect_refused = [&](auto change) {
    Request bad = request({1});
    change(bad);
    EXPECT_ERROR(engine.submit(bad), ErrorCode::invalid_argument);
  };
  expect_refused([](Request& r) { r.sampling.top_p = 0; });
  expect_refused([](Request& r) { r.stop_ids = {kVocab}; });
  expect_refused([](Request& r) { r.context = ContextPolicy::slide; });
  expect_refused([](Request& r) { r.logprobs = -2; });
  EXPECT_TRUE(engine.idle());
  EXPECT_FALSE(engine.cancel(0));
  EXPECT_EQ(engine.submit(request({1})), 0) << "a refused request counts";
}

}  // namespace
}  // namespace gpt
