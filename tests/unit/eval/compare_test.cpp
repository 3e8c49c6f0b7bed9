#include "eval/evaluate.h"
#include "support/backend.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/inference.h"
#include "model/params.h"
#include "support/names.h"

namespace gpt {
namespace {

// A small random byte-level model whose width fits quantization blocks of 32, and a text.
struct Fixture {
  Fixture() : model(config()), weights(model.table, DType::f32, "weights", test::device()) {
    init_params(model.table, weights, 7);
    model.weights.assign(weights.views().begin(), weights.views().end());
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
    c.n_embd = 32;
    c.init_std = 0.3;
    return c;
  }
  Comparison run(DType dtype, DType against, EvalOptions options = {}, int threads = 1) {
    ThreadPool pool(threads);
    options.dtype = dtype;
    const ComparedModel other{.model = model, .dtype = against, .adapter = options.adapter};
    return compare(model, TokenSpan(tokens), options, other, test::backend(pool, best_isa()));
  }

  Model model;
  ParamBuffer weights;
  std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  TokenData tokens{*tokenizer};
};

std::vector<double> log_probabilities(Inference& inference, int32_t id) {
  std::vector<float> z(256);
  const Inference::Append append{0, {&id, 1}};
  inference.append({&append, 1}, make_view(z.data(), {1, 256}));
  double sum = 0;
  for (const float x : z)
    sum += std::exp(double{x});
  std::vector<double> out;
  for (const float x : z)
    out.push_back(double{x} - std::log(sum));
  return out;
}

TEST(Compare, TwoModels) {
  Fixture f, other;
  init_params(other.model.table, other.weights, 8);
  ThreadPool pool(1);
  const auto run = [&](const Model& against) {
    return compare(f.model, TokenSpan(f.tokens), {}, ComparedModel{.model = against},
                   test::backend(pool, best_isa()));
  };
  const Comparison same = run(f.model), different = run(other.model);
  EXPECT_EQ(same.kl_max, 0);
  EXPECT_GT(different.kl_mean, 0.01);
  EXPECT_EQ(different.result.nats, same.result.nats);
  EXPECT_NE(different.against.nats, same.against.nats);
  EXPECT_TRUE(same_weights(f.model, Fixture().model));
  EXPECT_FALSE(same_weights(f.model, other.model));
}

TEST(Compare, AgreesWithTheDefinition) {
  Fixture f;
  ThreadPool pool(1);
  const auto options = [](DType t) {
    const InferenceTypes types = inference_types(t);
    return Inference::Options{.slots = 1, .dtype = types.activations, .weights = t, .kv_dtype = types.cache};
  };
  Inference q(f.model, test::backend(pool, best_isa()), options(DType::q4_0));
  Inference p(f.model, test::backend(pool, best_isa()), options(DType::f32));
  double nats_q = 0, nats_p = 0, kl = 0, largest = 0;
  for (int64_t at = 0; at + 1 < f.tokens.size(); ++at) {
    if (at % 16 == 0) {
      q.reset(0);
      p.reset(0);
    }
    const std::vector<double> lq = log_probabilities(q, f.tokens.id(at)),
                              lp = log_probabilities(p, f.tokens.id(at));
    nats_q -= lq[static_cast<size_t>(f.tokens.id(at + 1))];
    nats_p -= lp[static_cast<size_t>(f.tokens.id(at + 1))];
    double sum = 0;
    for (size_t i = 0; i < lq.size(); ++i)
      sum += std::exp(lp[i]) * (lp[i] - lq[i]);
    kl += sum;
    largest = std::max(largest, sum);
  }
  const Comparison c = f.run(DType::q4_0, DType::f32);
  EXPECT_EQ(c.result.tokens, 60);
  EXPECT_NEAR(c.result.nats, nats_q, 1e-9 * nats_q);
  EXPECT_NEAR(c.against.nats, nats_p, 1e-9 * nats_p);
  EXPECT_NEAR(c.kl_mean, kl / 60, 1e-9);
  EXPECT_NEAR(c.kl_max, largest, 1e-9);
  EXPECT_LE(c.kl_99, c.kl_max);
  EXPECT_GT(c.kl_mean, 0);
  EXPECT_LT(c.same_top, 1);
}

TEST(Compare, ATypeWithItself) {
  Fixture f;
  const Comparison c = f.run(DType::q8_0, DType::q8_0, {.n_ctx = 9, .stride = 4});
  EXPECT_EQ(c.result.nats, c.against.nats);
  EXPECT_NEAR(c.kl_max, 0, 1e-12);
  EXPECT_DOUBLE_EQ(c.same_top, 1);
}

TEST(Compare, EightBitsAreNearerThanFour) {
  Fixture f;
  const Comparison q8 = f.run(DType::q8_0, DType::f32), q4 = f.run(DType::q4_0, DType::f32);
  EXPECT_LT(q8.kl_mean, q4.kl_mean / 10);
  EXPECT_GE(q8.same_top, q4.same_top);
}

TEST(Compare, ThreadsChangeNoBit) {
  Fixture f;
  const Comparison one = f.run(DType::q8_0, DType::f32), three = f.run(DType::q8_0, DType::f32, {}, 3);
  EXPECT_EQ(one.result.nats, three.result.nats);
  EXPECT_EQ(one.kl_mean, three.kl_mean);
  EXPECT_EQ(one.kl_99, three.kl_99);
}

TEST(Compare, RefusesWhatEvaluateRefuses) {
  Fixture f;
  EXPECT_ERROR(f.run(DType::q8_0, DType::f32, {.n_ctx = 17}), ErrorCode::invalid_argument);
  f.weights[0].as<float>()[40 * 32] = std::nanf("");
  EXPECT_THROW(f.run(DType::f32, DType::f32), Error);
}

}  // namespace
}  // namespace gpt
