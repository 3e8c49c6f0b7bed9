#include "infer/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "infer/engine.h"
#include "support/names.h"
#include "unit/infer/fake_decoder.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;
using Source = Speculation::Source;

constexpr int64_t kVocab = 19, kContext = 40;

// A model whose logits only depend on the last two ids, so that its greedy output repeats itself.
std::vector<float> short_sighted(std::span<const int32_t> window, size_t) {
  return FakeDecoder::hashed(window.last(std::min<size_t>(window.size(), 2)), 2, kVocab);
}
std::vector<float> unrelated(std::span<const int32_t> window, size_t length) {
  return FakeDecoder::hashed(window, length + 99, kVocab);
}

struct Result {
  Ids ids;
  std::vector<double> logprobs;
  std::optional<FinishReason> finish;
  bool operator==(const Result&) const = default;
};

struct Setting {
  std::string name;
  Source source = Source::off;
  FakeDecoder::Model draft = {};
  int slots = 1;
  int64_t step_rows = 512, memory = 1 << 20, draft_memory = 1 << 20, max_tokens = 16;
  bool hashed = false;  // a model that never repeats itself
};
std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << s.name;
}

// The results of some requests and the counts of the engine.
struct Outcome {
  std::vector<Result> results;
  std::vector<int64_t> proposed, accepted;  // by request
  Engine::Counts counts;
};

Outcome run(const Setting& setting, const std::vector<Request>& requests, bool slides = true) {
  const FakeDecoder::Model model = setting.hashed ? FakeDecoder::Model() : short_sighted;
  FakeDecoder decoder(kVocab, kContext, setting.slots, slides, model);
  decoder.memory = setting.memory;
  FakeDecoder draft(kVocab, kContext, setting.slots, slides, setting.draft);
  draft.memory = setting.draft_memory;
  const Speculation speculation = {
      .source = setting.source, .max_tokens = setting.max_tokens, .draft = &draft, .measures_steps = false};
  Engine engine(decoder, {.step_rows = setting.step_rows, .speculation = speculation});
  for (const Request& r : requests)
    engine.submit(r);
  Outcome outcome{std::vector<Result>(requests.size()),
                  std::vector<int64_t>(requests.size()),
                  std::vector<int64_t>(requests.size()),
                  {}};
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      const auto i = static_cast<size_t>(event.request);
      Result& result = outcome.results[i];
      EXPECT_FALSE(result.finish.has_value()) << "an event after the last";
      result.ids.push_back(event.id);
      if (event.logprobs) result.logprobs.push_back(event.logprobs->chosen.logprob);
      for (size_t t = 0; event.logprobs && t < event.logprobs->top.size(); ++t)
        result.logprobs.push_back(event.logprobs->top[t].logprob);
      result.finish = event.finish;
      outcome.proposed[i] = event.proposed;
      outcome.accepted[i] = event.accepted;
    }
  }
  outcome.counts = engine.counts();
  EXPECT_LE(decoder.largest_batch, setting.step_rows);
  EXPECT_EQ(decoder.available_blocks(), decoder.memory) << "memory that was not released";
  EXPECT_EQ(draft.available_blocks(), draft.memory) << "the same of the draft model";
  return outcome;
}

// Returns random requests of every kind.
std::vector<Request> random_requests(uint64_t seed) {
  RandomStream random(seed, RandomSite::test);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint64_t>(n))); };
  std::vector<Request> requests(24);
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& r = requests[i];
    r.context = static_cast<ContextPolicy>(below(3));
    for (int64_t n = 1 + below(r.context == ContextPolicy::stop ? 20 : 60); n > 0; --n)
      r.prompt.push_back(static_cast<int32_t>(below(kVocab)));
    r.max_tokens = 1 + below(60);
    r.sampling.temperature = below(3) == 0 ? 0.8 : 0;
    r.sampling.top_k = below(2) * 5;
    r.sampling.repetition_penalty = below(4) == 0 ? 1.1 : 1;
    r.sampling.frequency_penalty = below(4) == 0 ? 0.2 : 0;
    r.seed = static_cast<uint64_t>(below(3));
    r.number = i;
    r.logprobs = below(4) - 1;
    if (below(3) == 0) r.eos_ids = {3};
    if (below(3) == 0) r.stop_ids = {4};
  }
  return requests;
}

class SpeculationSettings : public testing::TestWithParam<Setting> {};

TEST_P(SpeculationSettings, ChangesNothing) {
  const Setting setting = GetParam();
  Setting plain = setting;
  plain.source = Source::off;
  plain.slots = 1;
  plain.memory = 1 << 20;
  int64_t accepted = 0, missed = 0, preemptions = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const std::vector<Request> requests = random_requests(seed);
    const Outcome expected = run(plain, requests), found = run(setting, requests);
    for (size_t i = 0; i < requests.size(); ++i)
      EXPECT_EQ(found.results[i], expected.results[i]) << "seed " << seed << ", request " << i;
    accepted += found.counts.accepted;
    missed += found.counts.proposed - found.counts.accepted;
    preemptions += found.counts.preemptions;
    EXPECT_EQ(std::accumulate(found.accepted.begin(), found.accepted.end(), int64_t{0}),
              found.counts.accepted);
    EXPECT_EQ(expected.counts.proposed, 0);
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(missed, 0);
  if (setting.memory < 100) {
    EXPECT_GT(preemptions, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, SpeculationSettings,
    testing::Values(
        Setting{.name = "ngram", .source = Source::ngram},
        Setting{.name = "ngram_of_nine", .source = Source::ngram, .slots = 9},
        Setting{.name = "ngram_few_rows", .source = Source::ngram, .slots = 4, .step_rows = 6},
        Setting{.name = "ngram_little_memory", .source = Source::ngram, .slots = 8, .memory = 24},
        Setting{.name = "ngram_hashed", .source = Source::ngram, .slots = 3, .hashed = true},
        Setting{.name = "same", .source = Source::draft, .draft = short_sighted},
        Setting{.name = "same_of_nine", .source = Source::draft, .draft = short_sighted, .slots = 9},
        Setting{.name = "same_little_memory",
                .source = Source::draft,
                .draft = short_sighted,
                .slots = 8,
                .memory = 24},
        Setting{.name = "draft_little_memory",
                .source = Source::draft,
                .draft = short_sighted,
                .slots = 8,
                .draft_memory = 24},
        Setting{.name = "same_few_rows",
                .source = Source::draft,
                .draft = short_sighted,
                .slots = 4,
                .step_rows = 7,
                .max_tokens = 64},
        Setting{.name = "unrelated", .source = Source::draft, .draft = unrelated},
        Setting{.name = "unrelated_of_nine", .source = Source::draft, .draft = unrelated, .slots = 9}),
    [](const auto& p) { return p.param.name; });

Request greedy(Ids prompt, int64_t max_tokens) {
  Request r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.sampling.temperature = 0;
  return r;
}

// If the draft model always predicts the output, all draft tokens are accepted, which saves steps.
TEST(Speculation, CountsWhatIsAccepted) {
  const Setting same{.name = "", .source = Source::draft, .draft = short_sighted};
  const Outcome all = run(same, {greedy({1, 2}, 31)});
  EXPECT_EQ(all.counts.accepted, all.counts.proposed);
  EXPECT_EQ(all.counts.accepted, all.accepted[0]);
  // The first step computes the prompt. Each token takes one step unless it is an accepted draft token.
  EXPECT_EQ(all.counts.steps, 31 - all.counts.accepted);
  EXPECT_LT(all.counts.steps, 8);
  EXPECT_EQ(all.counts.computed, 2 + 30);
  const Outcome none =
      run({.name = "", .source = Source::draft, .draft = unrelated, .hashed = true}, {greedy({1, 2}, 31)});
  EXPECT_LT(none.counts.accepted, 6);
  EXPECT_EQ(none.counts.steps, 31 - none.counts.accepted);
}

// The drafter proposes no tokens beyond max_tokens or beyond the context.
TEST(Speculation, ProposesNoMoreThanMayCome) {
  const Setting same{.name = "", .source = Source::draft, .draft = short_sighted, .max_tokens = 64};
  for (int64_t n = 1; n < 20; ++n) {
    const Outcome found = run(same, {greedy({1, 2}, n)});
    EXPECT_EQ(std::ssize(found.results[0].ids), n);
    EXPECT_EQ(found.counts.computed, 2 + n - 1) << "every computed id was needed";
  }
  const Outcome full = run(same, {greedy({1, 2}, 1000)}, false);
  EXPECT_EQ(full.results[0].finish, FinishReason::context);
  EXPECT_EQ(full.counts.computed, kContext);
  EXPECT_EQ(std::ssize(full.results[0].ids), kContext - 1);
}

// A caller may end a sequence after any token, as stop strings do.
TEST(Speculation, MayBeCancelledBetweenAcceptedTokens) {
  const Ids expected = run({.name = ""}, {greedy({1, 2}, 30)}).results[0].ids;
  for (size_t keep = 1; keep < 20; ++keep) {
    FakeDecoder decoder(kVocab, kContext, 2, false, short_sighted),
        draft(kVocab, kContext, 2, false, short_sighted);
    Engine engine(decoder, {.speculation = {Source::draft, 16, &draft}});
    const int64_t first = engine.submit(greedy({1, 2}, 30)), second = engine.submit(greedy({1, 2}, 30));
    std::map<int64_t, Ids> ids;
    while (!engine.idle()) {
      for (const Event& event : engine.step()) {
        ids[event.request].push_back(event.id);
        if (event.request == first && ids[first].size() == keep) {
          EXPECT_TRUE(engine.cancel(first));
        }
      }
    }
    EXPECT_EQ(ids[first], Ids(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(keep)));
    EXPECT_EQ(ids[second], expected);
    EXPECT_EQ(decoder.available_blocks(), decoder.memory);
  }
}

// The drafter proposes no tokens after a token that would end the sequence.
TEST(Speculation, EndsInTheMiddleOfProposals) {
  Ids plain = run({.name = ""}, {greedy({1, 2}, 30)}).results[0].ids;
  Request r = greedy({1, 2}, 30);
  r.eos_ids = {plain[9]};
  const auto end = std::find(plain.begin(), plain.end(), plain[9]);
  const Outcome found = run({.name = "", .source = Source::draft, .draft = short_sighted}, {r});
  EXPECT_EQ(found.results[0].ids, Ids(plain.begin(), end + 1));
  EXPECT_EQ(found.results[0].finish, FinishReason::eos);
  EXPECT_EQ(found.counts.computed, 2 + (end - plain.begin())) << "every computed id was needed";
}

// If rows are more expensive than steps, only almost certain draft tokens are proposed.
TEST(Speculation, ManySequencesNeedBetterProposals) {
  const auto proposed = [](int sequences, int64_t of) {
    FakeDecoder decoder(kVocab, kContext, sequences, false);
    Speculator speculator(decoder, {Source::ngram}, 512);
    const Ids ids = {1, 2, 3, 4, 5, 6, 1, 2};
    std::vector<Acceptance> acceptances(static_cast<size_t>(sequences));
    std::vector<Ids> results(acceptances.size());
    std::vector<Speculator::Candidate> candidates;
    for (size_t i = 0; i < results.size(); ++i) {
      for (int learned = 0; learned < 50; ++learned)
        acceptances[i].learn(of, of - 1);
      acceptances[i].tries_again(0);  // skip the next trial
      candidates.push_back({{static_cast<int>(i), ids, 1000, &results[i]}, &acceptances[i]});
    }
    speculator.propose(candidates, sequences, 512 - sequences);
    size_t total = 0;
    for (const Ids& result : results)
      total += result.size();
    return total;
  };
  EXPECT_EQ(proposed(1, 1000), 16u) << "no more than asked for";
  EXPECT_GT(proposed(1, 10), proposed(8, 10) / 8);
  EXPECT_GT(proposed(8, 10) / 8, proposed(32, 10) / 32);
  EXPECT_EQ(proposed(32, 2), 0u);
}

TEST(Speculation, AcceptanceFollowsWhatHappens) {
  Acceptance acceptance;
  for (int i = 0; i < 20; ++i)
    acceptance.learn(4, 4);
  EXPECT_GT(acceptance.rate(), 0.95);
  for (int i = 0; i < 20; ++i)
    acceptance.learn(4, 0);
  EXPECT_LT(acceptance.rate(), 0.05);
  acceptance.learn(8, 8);
  EXPECT_GT(acceptance.rate(), 0.5);
  int trials = 0;
  for (int i = 0; i < 100; ++i)
    trials += acceptance.tries_again(25);
  EXPECT_EQ(trials, 4);
}

TEST(Speculation, RefusesWhatItCannotDo) {
  FakeDecoder decoder(kVocab, kContext, 1);
  const auto refuses = [&](const Speculation& speculation, const char* parameter,
                           std::initializer_list<test::Fact> facts) {
    return test::refused_parameter([&] { Engine(decoder, {.speculation = speculation}); }, parameter, facts);
  };
  EXPECT_TRUE(refuses({Source::ngram, 0}, "draft_tokens", {1, 64, 0}));
  EXPECT_TRUE(refuses({Source::ngram, 65}, "draft_tokens", {1, 64, 65}));
  EXPECT_TRUE(refuses({Source::draft}, "speculate", {"'draft'"}));
  EXPECT_ERROR(parse_speculation("eagle"), ErrorCode::invalid_argument);
  FakeDecoder stateful(kVocab, 64, 1);
  stateful.rolls_back = false;
  EXPECT_ERROR(Speculator(stateful, {Source::ngram}, 8), ErrorCode::unsupported);
  EXPECT_EQ(parse_speculation("ngram"), Source::ngram);
}

}  // namespace
}  // namespace gpt
