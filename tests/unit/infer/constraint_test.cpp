#include "infer/constraint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "infer/engine.h"
#include "infer/generate.h"
#include "support/names.h"
#include "unit/infer/fake_decoder.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kVocab = 700;  // needs several mask words and is not a multiple of 64
constexpr int32_t kEos = 699;

// Position i of the output allows ids with id % 7 == i % 7, except end ids. The output may end after `length`
// tokens and must end after `most` tokens.
class Sevens final : public Constraint {
 public:
  explicit Sevens(int64_t length, int64_t most = std::numeric_limits<int64_t>::max(), int64_t fails = -1)
      : length_(length), most_(most), fails_(fails) {}

  void allow(int64_t remaining, std::span<const int32_t> end_ids, std::span<uint64_t> allowed) override {
    seen_remaining = remaining;
    if (at() == fails_) fail("the constraint is out of order");
    std::ranges::fill(allowed, 0);
    const auto set = [&](int32_t id) { allowed[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64); };
    for (int32_t id = 0; id < kVocab; ++id)
      if (id % 7 == at() % 7 && std::ranges::count(end_ids, id) == 0 && at() != nothing_at) set(id);
    if (may_end()) std::ranges::for_each(end_ids, set);
  }
  void accept(int32_t id) override {
    if (id % 7 != at() % 7) fail("expected an id that fits, found {}", id);
    ids_.push_back(id);
  }
  bool may_end() const override { return at() >= length_; }
  bool complete() const override { return at() >= most_; }
  void rollback(int64_t n) override { ids_.resize(ids_.size() - static_cast<size_t>(n)); }
  std::unique_ptr<Constraint> clone() const override { return std::make_unique<Sevens>(*this); }

  int64_t nothing_at = -1;
  static inline int64_t seen_remaining = 0;

 private:
  int64_t at() const { return std::ssize(ids_); }
  int64_t length_, most_, fails_;
  Ids ids_;
};

struct Result {
  Ids ids;
  std::vector<double> logprobs;
  std::optional<FinishReason> finish;
  std::string error;
};

Request request(std::shared_ptr<const Constraint> constraint, int64_t max_tokens,
                SamplingParams sampling = SamplingParams::neutral()) {
  Request r;
  r.prompt = {1, 2};
  r.max_tokens = max_tokens;
  r.sampling = std::move(sampling);
  r.eos_ids = {kEos, 100000};
  r.constraint = std::move(constraint);
  return r;
}

std::vector<Result> run(std::vector<Request> requests, int64_t n_ctx = 64, int slots = 3,
                        Speculation speculation = {}, Engine::Counts* counts = nullptr) {
  FakeDecoder decoder(kVocab, n_ctx, slots);
  Engine engine(decoder, {.step_rows = 16, .speculation = speculation});
  std::vector<Result> results(requests.size());
  for (Request& r : requests)
    engine.submit(std::move(r));
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      Result& result = results[static_cast<size_t>(event.request)];
      if (event.id >= 0) result.ids.push_back(event.id);
      if (event.logprobs) result.logprobs.push_back(event.logprobs->chosen.logprob);
      result.finish = event.finish;
      result.error = event.error;
    }
  }
  if (counts != nullptr) *counts = engine.counts();
  return results;
}

// All sampling methods only choose allowed tokens.
TEST(Constraint, EveryWayOfDrawingKeepsToIt) {
  const auto sevens = std::make_shared<Sevens>(9);
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<Request> requests;
  for (const SamplingParams& params :
       std::vector<SamplingParams>{SamplingParams::neutral(),
                                   {.temperature = 0},
                                   {.temperature = 2, .top_k = 5},
                                   {.top_k = 400},
                                   {.top_k = 0, .top_p = 0.5},
                                   {.top_k = 0, .min_p = 0.3},
                                   {.top_k = 0, .repetition_penalty = 3, .presence_penalty = 1},
                                   {.top_k = 0, .logit_bias = {{3, inf}, {4, -inf}}}})
    requests.push_back(request(sevens, 20, params));
  for (const Result& result : run(requests)) {
    ASSERT_EQ(result.error, "");
    ASSERT_FALSE(result.ids.empty());
    for (size_t i = 0; i < result.ids.size(); ++i) {
      if (result.ids[i] == kEos) {
        EXPECT_GE(i, 9u);
        EXPECT_EQ(result.finish, FinishReason::eos);
      } else {
        EXPECT_EQ(result.ids[i] % 7, static_cast<int32_t>(i % 7));
      }
    }
  }
}

// The greedy request gets the best allowed token. The log-probability of this token is that of the model
// without the constraint.
TEST(Constraint, ChoosesTheBestThatFits) {
  Request r = request(std::make_shared<Sevens>(100), 5, {.temperature = 0});
  r.logprobs = 3;
  Request free = r;
  free.constraint = nullptr;
  const std::vector<Result> results = run({r, free});
  FakeDecoder decoder(kVocab, 64, 1);
  Ids ids = r.prompt;
  for (size_t i = 0; i < results[0].ids.size(); ++i) {
    const std::vector<float> logits = decoder.logits_of(ids);
    size_t best = i % 7;
    double sum = 0;
    for (size_t id = 0; id < logits.size(); ++id) {
      if (id % 7 == i % 7 && id != kEos && logits[id] > logits[best]) best = id;
      sum += std::exp(double{logits[id]});
    }
    EXPECT_EQ(results[0].ids[i], static_cast<int32_t>(best));
    EXPECT_NEAR(results[0].logprobs[i], logits[best] - std::log(sum), 1e-6);
    ids.push_back(results[0].ids[i]);
  }
  EXPECT_EQ(results[0].ids.size(), 5u);
  EXPECT_NE(results[0].ids, results[1].ids);
}

TEST(Constraint, EndsWhereNothingCanFollow) {
  const Result result = run({request(std::make_shared<Sevens>(4, 4), 20)})[0];
  EXPECT_EQ(result.ids.size(), 4u);
  EXPECT_EQ(result.finish, FinishReason::complete);
}

// The constraint receives the number of remaining tokens, which is limited by max_tokens or by the context.
TEST(Constraint, KnowsWhatIsLeft) {
  run({request(std::make_shared<Sevens>(1000), 5)});
  EXPECT_EQ(Sevens::seen_remaining, 1);
  run({request(std::make_shared<Sevens>(1000, 1), 5)});
  EXPECT_EQ(Sevens::seen_remaining, 5);
  const Result result = run({request(std::make_shared<Sevens>(1000), 500)}, 10)[0];
  EXPECT_EQ(result.finish, FinishReason::context);
  EXPECT_EQ(result.ids.size(), 9u);  // two of the prompt, and one more than the context
  EXPECT_EQ(Sevens::seen_remaining, 1);
}

// The draft model ignores the constraint. One draft model proposes only allowed tokens and one only forbidden
// tokens.
TEST(Constraint, ProposalsAreHeldToIt) {
  std::vector<Request> requests;
  for (const double temperature : {0.0, 0.8}) {
    for (const int64_t most : {int64_t{9}, int64_t{1000}}) {
      requests.push_back(request(std::make_shared<Sevens>(4, most), 30, {.temperature = temperature}));
      requests.back().logprobs = 1;
    }
  }
  const std::vector<Result> expected = run(requests);
  for (const bool fits : {true, false}) {
    // The first model proposes ids that fit their position, for prompts of two tokens. The second model is
    // off by one position.
    FakeDecoder draft(kVocab, 64, 3, false, [&](std::span<const int32_t> window, size_t length) {
      std::vector<float> logits = FakeDecoder::hashed(window, length, kVocab);
      for (size_t id = 0; id < logits.size(); ++id)
        logits[id] -= id % 7 == (length - 2 + !fits) % 7 ? 0.0F : 100.0F;
      return logits;
    });
    Engine::Counts counts;
    const Speculation speculation = {
        .source = Speculation::Source::draft, .max_tokens = 8, .draft = &draft, .measures_steps = false};
    const std::vector<Result> found = run(requests, 64, 3, speculation, &counts);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].ids, expected[i].ids);
      EXPECT_EQ(found[i].logprobs, expected[i].logprobs);
      EXPECT_EQ(found[i].finish, expected[i].finish);
      EXPECT_EQ(found[i].error, "");
    }
    EXPECT_GT(counts.proposed, 0);
    EXPECT_EQ(counts.accepted > 0, fits);
  }
}

// An error only ends its own request.
TEST(Constraint, ErrorsEndOneRequest) {
  auto nothing = std::make_shared<Sevens>(1000);
  nothing->nothing_at = 2;
  const double inf = std::numeric_limits<double>::infinity();
  SamplingParams forbidding;
  for (int32_t id = 0; id < kVocab; id += 7)
    forbidding.logit_bias[id] = -inf;
  for (const SamplingParams& sampling :
       {SamplingParams::neutral(), SamplingParams{.temperature = 0}, SamplingParams{.top_k = 3}}) {
    SamplingParams none = sampling;
    none.logit_bias = forbidding.logit_bias;
    const std::vector<Result> results =
        run({request(std::make_shared<Sevens>(1000, 1000, 3), 6, sampling), request(nothing, 6, sampling),
             request(std::make_shared<Sevens>(1000), 6, none),
             request(std::make_shared<Sevens>(1000), 6, sampling)});
    EXPECT_EQ(results[0].error, "the constraint is out of order");
    EXPECT_EQ(results[0].ids.size(), 3u);
    EXPECT_TRUE(test::names(results[1].error, {700}));
    EXPECT_FALSE(test::names(results[1].error, {"logit_bias"}));
    EXPECT_EQ(results[1].ids.size(), 2u);
    EXPECT_TRUE(test::names(results[2].error, {"logit_bias", 700}));
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(results[i].finish, FinishReason::error);
    EXPECT_EQ(results[3].finish, FinishReason::length);
    EXPECT_EQ(results[3].ids.size(), 6u);
  }
}

// Each sample of a prompt has its own copy of the constraint. Memory, batching and steps do not change
// results.
TEST(Constraint, SamplesHaveTheirOwn) {
  const auto generated = [&](int slots, int64_t memory) {
    FakeDecoder decoder(kVocab, 64, slots);
    decoder.memory = memory;
    const std::vector<int32_t> prompts[] = {{5, 6}, {7}};
    std::vector<Ids> ids;
    for (const Completion& c :
         generate(decoder, prompts, {.max_tokens = 12, .n = 4, .constraint = std::make_shared<Sevens>(1000)}))
      ids.push_back(c.ids);
    return ids;
  };
  const std::vector<Ids> all = generated(8, 1000);
  EXPECT_EQ(std::set<Ids>(all.begin(), all.end()).size(), 8u);
  for (const Ids& ids : all)
    EXPECT_EQ(ids.size(), 12u);
  EXPECT_EQ(all, generated(1, 1000));
  EXPECT_EQ(all, generated(5, 12));
}

}  // namespace
}  // namespace gpt
