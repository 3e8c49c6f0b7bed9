#include "eval/evaluate.h"
#include "support/backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "model/inference.h"
#include "model/params.h"
#include "support/adapted_model.h"
#include "support/names.h"
#include "support/team.h"

namespace gpt {
namespace {

// A small random byte-level model and a text to evaluate it on.
struct Fixture {
  Fixture() : model(config()), weights(model.table, DType::f32, "weights", test::device()) {
    init_params(model.table, weights, 7);
    const auto views = weights.views();
    model.weights.assign(views.begin(), views.end());
    std::vector<int32_t> ids;
    for (int i = 0; i < 61; ++i)
      ids.push_back(32 + i * i % 90);
    tokens.append(ids);
  }
  static ModelConfig config() {
    ModelConfig c;
    c.vocab_size = 256;
    c.n_ctx = 16;
    c.n_layer = 2;
    c.n_head = 2;
    c.n_embd = 16;
    c.init_std = 0.3;
    return c;
  }
  EvalResult run(const EvalOptions& options, int threads = 1) {
    ThreadPool pool(threads);
    return evaluate(model, TokenSpan(tokens), options, test::backend(pool, Isa::ref));
  }

  Model model;
  ParamBuffer weights;
  std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  TokenData tokens{*tokenizer};
};

// Computes the loss by definition, token by token, from the logits of the inference code.
double plain_nats(Fixture& f, int64_t n_ctx, int64_t stride) {
  ThreadPool pool(1);
  Inference inference(f.model, test::backend(pool, Isa::ref), {.slots = 1});
  double nats = 0;
  int64_t scored = 1;  // the first token is not predicted
  for (int64_t begin = 0; scored < f.tokens.size(); begin += stride) {
    inference.reset(0);
    const int64_t end = std::min(begin + n_ctx, f.tokens.size() - 1);
    for (int64_t at = begin; at < end; ++at) {
      std::vector<float> logits(256);
      const int32_t id = f.tokens.id(at);
      const Inference::Append append{0, {&id, 1}};
      inference.append({&append, 1}, make_view(logits.data(), {1, 256}));
      if (at + 1 < scored) continue;
      double sum = 0;
      for (float z : logits)
        sum += std::exp(static_cast<double>(z));
      nats += std::log(sum) - static_cast<double>(logits[static_cast<size_t>(f.tokens.id(at + 1))]);
    }
    scored = end + 1;
  }
  return nats;
}

TEST(Evaluate, IsTheSameForAnyNumberOfProcesses) {
  Fixture alone;
  EvalOptions options{.stride = 5, .batch_size = 2};
  const EvalResult expected = alone.run(options);
  for (const int size : {2, 3, 20}) {
    test::Team(size).run([&](Communicator& processes) {
      Fixture own;
      EvalOptions shared = options;
      shared.processes = &processes;
      const EvalResult r = own.run(shared);
      EXPECT_EQ(r.nats, expected.nats);
      EXPECT_EQ(r.tokens, expected.tokens);
    });
  }
}

TEST(Evaluate, AgreesWithTheDefinition) {
  Fixture f;
  for (const auto& [n_ctx, stride] : {std::pair{16, 16}, {16, 5}, {10, 10}, {7, 1}}) {
    const EvalResult r = f.run({.n_ctx = n_ctx, .stride = stride});
    EXPECT_NEAR(r.nats, plain_nats(f, n_ctx, stride), 1e-3) << n_ctx << " " << stride;
    EXPECT_EQ(r.tokens, 60);
    EXPECT_EQ(r.text_bytes, 60);
  }
}

TEST(Evaluate, DerivedNumbers) {
  Fixture f;
  const EvalResult r = f.run({});
  EXPECT_EQ(r.n_ctx, 16);
  EXPECT_EQ(r.stride, 16);
  EXPECT_DOUBLE_EQ(r.loss(), r.nats / 60);
  EXPECT_DOUBLE_EQ(r.perplexity(), std::exp(r.loss()));
  EXPECT_DOUBLE_EQ(r.bits_per_byte(), r.loss() / std::numbers::ln2);  // one byte per token
}

TEST(Evaluate, ThreadsChangeNoBitAndBatchesOnlyRounding) {
  Fixture f;
  const double one = f.run({.stride = 4}).nats;
  EXPECT_EQ(f.run({.stride = 4}, 3).nats, one);
  for (const int64_t batch : {1, 3, 100})
    EXPECT_NEAR(f.run({.stride = 4, .batch_size = batch}).nats, one, 1e-3);
}

TEST(Evaluate, ReportsProgressToTheEnd) {
  Fixture f;
  ThreadPool pool(1);
  int64_t last = 0, all = 0;
  evaluate(f.model, TokenSpan(f.tokens), {.batch_size = 3}, test::backend(pool, Isa::ref),
           [&](int64_t done, int64_t total) {
             EXPECT_GT(done, last);
             last = done;
             all = total;
           });
  EXPECT_EQ(last, 4);  // ceil(60 / 16)
  EXPECT_EQ(all, 4);
}

TEST(Evaluate, RefusesWhatItCannotDo) {
  Fixture f;
  EXPECT_ERROR(f.run({.n_ctx = 17}), ErrorCode::invalid_argument);
  EXPECT_ERROR(f.run({.stride = 17}), ErrorCode::invalid_argument);
  EXPECT_ERROR(f.run({.n_ctx = -1}), ErrorCode::invalid_argument);
  EXPECT_ERROR(f.run({.batch_size = -1}), ErrorCode::invalid_argument);
  ThreadPool pool(1);
  EXPECT_THROW(evaluate(f.model, TokenSpan(f.tokens, 0, 1), {}, test::backend(pool, Isa::ref)), Error);
}

TEST(Evaluate, RefusesTokensThatTheModelDoesNotKnow) {
  Fixture f;
  ModelConfig config = Fixture::config();
  config.vocab_size = 40;  // the text has bytes up to 121
  Model small(config);
  ParamBuffer weights(small.table, DType::f32, "weights");
  const auto views = weights.views();
  small.weights.assign(views.begin(), views.end());
  ThreadPool pool(1);
  EXPECT_THROW(evaluate(small, TokenSpan(f.tokens), {}, test::backend(pool, Isa::ref)), Error);
}

// Batched evaluation and the token-by-token evaluation in `compare` give the same loss with an adapter.
TEST(Evaluate, WithAnAdapter) {
  Fixture f;
  const test::RandomAdapter random(f.model, DType::f32, 4);
  const EvalOptions with{.adapter = random.adapter};
  const EvalResult result = f.run(with);
  EXPECT_GT(std::abs(result.loss() - f.run({}).loss()), 1e-2);
  ThreadPool pool(1);
  const ComparedModel other{.model = f.model, .dtype = DType::bf16, .adapter = random.adapter};
  const Comparison both = compare(f.model, TokenSpan(f.tokens), with, other, test::backend(pool, Isa::ref));
  EXPECT_NEAR(both.result.loss(), result.loss(), 1e-5);
  EXPECT_NEAR(both.against.loss(), result.loss(), 0.05);
}

}  // namespace
}  // namespace gpt
