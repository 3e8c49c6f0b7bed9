#include "trace/capture.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/inference.h"
#include "support/backend.h"
#include "support/small_models.h"
#include "tensor/element.h"
#include "trace/views.h"

namespace gpt::test {
namespace {

constexpr int64_t kTokens = 9;

class EveryConfig : public testing::TestWithParam<SmallConfig> {
 protected:
  EveryConfig()
      : random_(make_config(GetParam()), DType::f32),
        ids_(random_ids(kTokens, random_.model.config.vocab_size, 5)),
        capture_(random_.model, backend(pool_, best_isa()), ids_, {}) {}

  ThreadPool pool_{2};
  RandomModel random_;
  std::vector<int32_t> ids_;
  Capture capture_;
};

TEST_P(EveryConfig, HasTheBitsOfInference) {
  Inference inference(random_.model, backend(pool_, best_isa()), {.slots = 1, .max_rows = kTokens});
  std::vector<float> values(static_cast<size_t>(capture_.logits().size()));
  const TensorView logits = make_view(values.data(), {kTokens, capture_.config().vocab_size});
  inference.append_all(0, ids_, logits);
  EXPECT_TRUE(same_bytes(logits, capture_.logits()));
}

TEST_P(EveryConfig, ScoresLeadToTheAttentionWeights) {
  for (int64_t layer = 0; layer < capture_.n_layer(); ++layer) {
    const TensorView weights = capture_.block(layer).weights;
    for (int64_t head = 0; head < capture_.config().n_head; ++head) {
      for (int64_t query = 0; query < kTokens; ++query) {
        const std::vector<AttentionScore> row = score_row(capture_, layer, head, query);
        for (int64_t key = 0; key < kTokens; ++key)
          ASSERT_NEAR(row[static_cast<size_t>(key)].weight, element(weights, head * kTokens + query, key),
                      2e-6);
      }
    }
  }
}

// Every residual stream is the sum, or the norm of the sum, of its traced inputs.
TEST_P(EveryConfig, StreamsAddUp) {
  for (int64_t layer = 0; layer < capture_.n_layer(); ++layer) {
    const BlockTrace& a = capture_.block(layer);
    const bool post = capture_.config().norm_position == NormPosition::post;
    for (int64_t t = 0; t < kTokens; ++t) {
      for (int64_t c = 0; c < capture_.config().n_embd; ++c) {
        ASSERT_NEAR(element(a.mid, t, c), element(a.in, t, c) + element(a.attention_out, t, c), 1e-5);
        const double sum = element(post ? a.norm1_out : a.mid, t, c) + element(a.mlp_out, t, c);
        ASSERT_NEAR(element(post ? a.sum : a.out, t, c), sum, 1e-5);
      }
    }
  }
}

TEST_P(EveryConfig, LensOfTheLastStreamIsThePrediction) {
  const std::vector<Prediction> said = predictions(capture_, 3);
  const LogitLens lens = logit_lens(capture_, 3);
  ASSERT_EQ(lens.size(), static_cast<size_t>(capture_.n_layer() + 1));
  for (size_t t = 0; t < said.size(); ++t) {
    EXPECT_EQ(lens.back()[t].top[0].id, said[t].top[0].id);
    EXPECT_EQ(lens.back()[t].log_sum, said[t].log_sum);
    EXPECT_EQ(lens.back()[t].next_rank, said[t].next_rank);
  }
}

TEST_P(EveryConfig, NamesEveryActivationOnceAndFinite) {
  std::set<std::string> names;
  for (const NamedActivation& a : capture_.activations()) {
    EXPECT_TRUE(names.insert(a.name).second) << a.name;
    EXPECT_EQ(checked_size(a.shape, a.name), a.view.size()) << a.name;
    for (int64_t r = 0; r < a.view.rows(); ++r) {
      for (int64_t c = 0; c < a.view.cols(); ++c)
        ASSERT_TRUE(std::isfinite(element(a.view, r, c))) << a.name;
    }
  }
  EXPECT_EQ(names.count("blocks.1.mlp.hidden"), capture_.n_layer() > 1 ? 1U : 0U);
}

TEST_P(EveryConfig, SharesAreShares) {
  for (int64_t layer = 0; layer < capture_.n_layer(); ++layer) {
    for (int64_t head = 0; head < capture_.config().n_head; ++head) {
      const HeadSummary s = head_summary(capture_, layer, head);
      for (const double share : {s.self, s.previous, s.first}) {
        EXPECT_GE(share, 0);
        EXPECT_LE(share, 1.00001);
      }
      EXPECT_LE(s.entropy, std::log2(kTokens));
    }
    const MlpSummary mlp = mlp_summary(capture_, layer);
    EXPECT_GT(mlp.active, 0);
    EXPECT_LT(mlp.active, 1);
    const std::vector<Neuron> top = top_neurons(capture_, layer, kTokens - 1, 4);
    ASSERT_EQ(top.size(), 4u);
    EXPECT_GE(std::abs(top[0].value), std::abs(top[3].value));
  }
}

INSTANTIATE_TEST_SUITE_P(Small, EveryConfig, testing::ValuesIn(small_configs()),
                         [](const auto& param) { return test_name(param.param.name); });

TEST(Capture, WhatIsProjectedIsRotatedAndNormalised) {
  ThreadPool pool(1);
  const RandomModel random(make_config(small_config("nanochat_gqa")), DType::f64);
  const ModelConfig& c = random.model.config;
  const Capture capture(random.model, backend(pool, Isa::ref), random_ids(kTokens, c.vocab_size, 3),
                        {.dtype = DType::f64});
  const BlockTrace& a = capture.block(1);
  const std::vector<double> frequency = rope_frequencies(rope_of(c));
  const int64_t half = c.head_dim / 2;
  for (int64_t t = 0; t < kTokens; ++t) {
    double squares = 0;
    for (int64_t d = 0; d < half; ++d) {
      const double x = element(a.qkv_projected, t, d), y = element(a.qkv_projected, t, d + half);
      const double angle =
          static_cast<double>(c.rope_sign) * static_cast<double>(t) * frequency[static_cast<size_t>(d)];
      EXPECT_NEAR(element(a.qk_rotated, t, d), x * std::cos(angle) - y * std::sin(angle), 1e-12);
      EXPECT_NEAR(element(a.qk_rotated, t, d + half), y * std::cos(angle) + x * std::sin(angle), 1e-12);
      squares += x * x + y * y;
    }
    const double rms = std::sqrt(squares / static_cast<double>(c.head_dim) + c.norm_eps);
    EXPECT_NEAR(element(a.qkv, t, 0), element(a.qk_rotated, t, 0) / rms, 1e-12);
  }
}

TEST(Capture, RefusesWhatItCannotRun) {
  ThreadPool pool(1);
  const RandomModel random(make_config(small_config("gpt2")), DType::f32);
  const auto run = [&](std::vector<int32_t> ids) { Capture(random.model, backend(pool, Isa::ref), ids, {}); };
  EXPECT_THROW(run({}), Error);
  EXPECT_THROW(run({23}), Error);
  EXPECT_THROW(run({-1}), Error);
  EXPECT_THROW(run(std::vector<int32_t>(13, 1)), Error);
  EXPECT_NO_THROW(run(std::vector<int32_t>(12, 1)));
}

TEST(Predict, RanksAndSums) {
  std::vector<double> z = {1, 3, 3, -2};
  const Prediction p = predict(make_view(z.data(), {1, 4}), 0, 2, 2);
  const double sum = std::exp(1) + 2 * std::exp(3) + std::exp(-2);
  EXPECT_NEAR(p.log_sum, std::log(sum), 1e-12);
  ASSERT_EQ(p.top.size(), 2u);
  EXPECT_EQ(p.top[0].id, 1);
  EXPECT_EQ(p.top[1].id, 2);
  EXPECT_NEAR(p.next_probability, std::exp(3) / sum, 1e-12);
  EXPECT_EQ(p.next_rank, 2);
  double entropy = 0;
  for (double x : z)
    entropy -= std::exp(x) / sum * std::log2(std::exp(x) / sum);
  EXPECT_NEAR(p.entropy, entropy, 1e-12);
}

}  // namespace
}  // namespace gpt::test
