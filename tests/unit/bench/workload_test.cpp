#include "bench/workload.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/process_memory.h"
#include "support/small_models.h"

namespace gpt {

static void PrintTo(BenchMode mode, std::ostream* out) {
  *out << mode_name(mode);
}

namespace {

class WorkloadTest : public testing::TestWithParam<BenchMode> {
 protected:
  WorkloadTest() {
    fill_random_weights(pool_, model_.table, weights_);
    model_.weights.assign(weights_.views().begin(), weights_.views().end());
  }

  WorkloadResult run(Workload w) {
    return run_workload({.model = model_,
                         .weights = weights_,
                         .backend = {pool_, kernel_table(best_isa())},
                         .progress = [this](int repeat) { repeats_.push_back(repeat); }},
                        w);
  }

  ThreadPool pool_{2};
  Model model_{test::make_config(test::small_config("llama"))};
  ParamBuffer weights_{model_.table, DType::f32, "weights"};
  std::vector<int> repeats_;
};

TEST_P(WorkloadTest, TimesEveryRepeatAndItsOps) {
  const WorkloadResult result = run({.mode = GetParam(),
                                     .batch_size = 2,
                                     .n_ctx = 12,
                                     .rows = 10,
                                     .sequences = 3,
                                     .tokens = 5,
                                     .repeat = 2});
  EXPECT_EQ(repeats_, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(result.seconds.size(), 2u);
  EXPECT_GT(result.flops, 0);
  EXPECT_GT(result.memory_predicted, 0);
  double in_ops = 0;
  int64_t products = 0;
  for (const OpTime& op : result.ops) {
    in_ops += op.seconds;
    if (op.op == std::string("linear_forward")) products = op.calls;
  }
  EXPECT_LE(in_ops, result.total_seconds());
  EXPECT_GT(products, 0);
  EXPECT_EQ(products % 2, 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, WorkloadTest, testing::ValuesIn(kBenchModes),
                         [](const auto& p) { return testing::PrintToString(p.param); });

TEST_F(WorkloadTest, CountsTokens) {
  EXPECT_EQ(run({.mode = BenchMode::train, .batch_size = 2, .n_ctx = 12, .repeat = 1}).tokens, 24);
  EXPECT_EQ(run({.mode = BenchMode::prefill, .rows = 10, .repeat = 1}).tokens, 10);
  EXPECT_EQ(run({.mode = BenchMode::decode, .tokens = 5, .repeat = 1}).tokens, 5);
  EXPECT_EQ(run({.mode = BenchMode::batch, .sequences = 3, .tokens = 5, .repeat = 1}).tokens, 15);
}

TEST_F(WorkloadTest, TrainingTrains) {
  const float before = *weights_[0].as<float>();
  run({.mode = BenchMode::train, .batch_size = 1, .n_ctx = 12, .repeat = 1});
  EXPECT_NE(*weights_[0].as<float>(), before);
  EXPECT_TRUE(std::isfinite(*weights_[0].as<float>()));
}

// The optimizer changes the weights, so each training step packs them again. Inference packs them once,
// outside the timed region.
TEST_F(WorkloadTest, PacksWeightsInEveryTrainingStep) {
  const auto packed = [this](BenchMode mode) -> int64_t {
    model_.packed = std::make_unique<WeightCache>();
    for (const OpTime& op : run({.mode = mode, .batch_size = 1, .n_ctx = 12, .rows = 4, .repeat = 3}).ops) {
      if (op.op == std::string("pack_matrix")) return op.calls;
    }
    return 0;
  };
  const int64_t steps = packed(BenchMode::train);
  EXPECT_EQ(steps % 3, 0);
  EXPECT_EQ(steps > 0, kernel_table(best_isa()).packed_bytes(DType::f32, 16, 16, false) > 0);
  EXPECT_EQ(packed(BenchMode::prefill), 0);
}

// A prompt that is fed token by token takes the same operations as a prompt fed at once, except for the head.
TEST_F(WorkloadTest, OperationsOfInference) {
  const ModelCounts counts(model_.config);
  double sum = 0;
  for (int64_t t = 0; t < 7; ++t)
    sum += inference_flops(counts, t, 1, true);
  EXPECT_DOUBLE_EQ(sum, inference_flops(counts, 0, 7, true));
  const double head = 2.0 * static_cast<double>(model_.config.vocab_size * model_.config.n_embd);
  EXPECT_DOUBLE_EQ(inference_flops(counts, 0, 7, false), sum - 6 * head);
  // The last of n_ctx tokens takes the operations that `gpt info` reports for that context length.
  EXPECT_DOUBLE_EQ(inference_flops(counts, 11, 1, true), counts.forward_flops(12));
}

TEST_F(WorkloadTest, AWindowBoundsTheKeysThatAreCounted) {
  ModelConfig config = model_.config;
  EXPECT_EQ(keys_seen(config.sliding_window, 3, 4), 4 + 5 + 6 + 7);
  config.sliding_window = 5;
  EXPECT_EQ(keys_seen(config.sliding_window, 3, 4), 4 + 5 + 5 + 5);
  EXPECT_EQ(keys_seen(config.sliding_window, 9, 2), 5 + 5);
  EXPECT_EQ(keys_seen(config.sliding_window, 0, 5), 1 + 2 + 3 + 4 + 5);
}

TEST_F(WorkloadTest, BytesOfWeightsLeaveOutLookedUpTables) {
  const int64_t table = model_.config.vocab_size * model_.config.n_embd;
  EXPECT_EQ(weight_bytes(model_, kernel_table(Isa::ref), DType::f32), 4 * (model_.table.total() - table));
}

TEST(WorkloadResult, MedianAndSpread) {
  const WorkloadResult odd{.tokens = 12, .seconds = {4, 1, 2}};
  EXPECT_EQ(odd.median_seconds(), 2);
  EXPECT_EQ(odd.total_seconds(), 7);
  EXPECT_EQ(odd.tokens_per_second(), 6);
  EXPECT_EQ(odd.slowest(), 3);
  EXPECT_EQ(odd.fastest(), 12);
  EXPECT_EQ((WorkloadResult{.tokens = 1, .seconds = {4, 1}}.median_seconds()), 2.5);
}

TEST(Memory, PeakIsAtLeastWhatIsResident) {
  reset_peak_resident();
  EXPECT_GE(peak_resident_bytes(), 0);
  EXPECT_GE(resident_bytes(), 0);
}

}  // namespace
}  // namespace gpt
