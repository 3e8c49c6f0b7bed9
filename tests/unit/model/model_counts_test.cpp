#include "model/model_counts.h"

#include <gtest/gtest.h>

#include "model/training_graph.h"
#include "support/small_models.h"

namespace gpt {
namespace {

TEST(TrainingGraph, PlannedBytesAreThoseOfTheGraph) {
  for (const test::SmallConfig& small : test::all_configs()) {
    const Model model(test::make_config(small));
    ThreadPool pool(2);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const TrainingGraph::Options options :
           {TrainingGraph::Options{.dtype = dtype}, TrainingGraph::Options{.recompute = true, .dtype = dtype},
            TrainingGraph::Options{.gradients = false, .dtype = dtype}}) {
        const TrainingGraph graph(model, 3, 7, options, test::backend(pool, Isa::ref));
        EXPECT_EQ(TrainingGraph::planned_bytes(model.config, 3, 7, options, kernel_table(Isa::ref), 2),
                  graph.bytes())
            << small.name;
        EXPECT_EQ(TrainingGraph::planned_activations(model.config, 3, 7, options), graph.planner().bytes())
            << small.name;
      }
    }
  }
}

TEST(ModelCounts, FlopPartsAddUp) {
  for (const test::SmallConfig& small : test::small_configs()) {
    const ModelCounts counts(test::make_config(small));
    EXPECT_DOUBLE_EQ(counts.flop_parts(9).total(), counts.forward_flops(9)) << small.name;
    EXPECT_DOUBLE_EQ(counts.decode_flops(8), counts.forward_flops(9)) << small.name;
    EXPECT_DOUBLE_EQ(counts.training_flops(9), 3 * counts.forward_flops(9)) << small.name;
  }
}

TEST(ModelCounts, AttentionCostsNoMoreThanTheSlidingWindow) {
  const ModelCounts counts(
      test::make_config(test::small_config("gpt2_window")));  // 3 keys, q_dim 16, 2 layers
  EXPECT_DOUBLE_EQ(counts.flop_parts(2).scores, 4.0 * 2 * 16 * 2);
  EXPECT_DOUBLE_EQ(counts.flop_parts(9).scores, 4.0 * 2 * 16 * 3);
  EXPECT_DOUBLE_EQ(counts.forward_flops(9), counts.forward_flops(3));
  EXPECT_DOUBLE_EQ(counts.flop_parts(9).total(), counts.forward_flops(9));
}

TEST(ModelCounts, LayersThatReadOthersKeysHaveNoneInTheCache) {
  const ModelCounts counts(test::make_config(test::small_config("toy_shared_kv")));
  EXPECT_EQ(counts.cache_bytes_per_token(4), 3 * 2 * counts.config.kv_dim() * 4);
}

TEST(TrainingState, SixteenBytesAParameter) {
  for (const TrainingFormat& format : training_formats())
    EXPECT_EQ(training_state(1000, format).total(), 16000) << format.name;
  const TrainingState mixed = training_state(1000, training_formats()[2]);
  EXPECT_EQ(mixed.weights, 2000);
  EXPECT_EQ(mixed.gradients, 2000);
  EXPECT_EQ(mixed.master, 4000);
  EXPECT_EQ(mixed.moments, 8000);
}

// 7 billion parameters on 8 devices take 112, 38.5, 26.25 and 14 GB for ZeRO stages 0 to 3.
TEST(TrainingState, ZeroStages) {
  const TrainingFormat& mixed = training_formats()[2];
  const int64_t expected[] = {112000000000, 38500000000, 26250000000, 14000000000};
  for (int stage = 0; stage < kZeroStages; ++stage) {
    EXPECT_EQ(training_state(7000000000, mixed, stage, 8).total(), expected[stage]) << stage;
    EXPECT_EQ(training_state(7000000000, mixed, stage, 1).total(), expected[0]) << stage;
  }
  EXPECT_EQ(training_state(10, mixed, 3, 3).weights, 8) << "shares are rounded up";
}

TEST(NumberFormats, BitsMakeBytes) {
  for (const NumberFormat& f : number_formats())
    EXPECT_EQ(f.sign + f.exponent + f.mantissa, 8 * f.bytes) << f.name;
}

}  // namespace
}  // namespace gpt
