// Weights of mapped files that get into large pages while they are read (model/weight_pages.h).

#include <gtest/gtest.h>

#include <cstring>

#include "base/mapped_file.h"
#include "convert/gguf_export.h"
#include "model/inference.h"
#include "model/model_files.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

constexpr int kTokens = 48;  // all slices are moved after 32

// Models with some MB of weights, one of them in blocks; tied, so that the embedding is the head.
class RepackTest : public testing::TestWithParam<const char*> {
 protected:
  RepackTest()
      : random_(make_config({"", GetParam(),
                             R"({"vocab_size": 512, "n_embd": 512, "d_ff": 2048, "n_head": 4, "n_layer": 2,
                                 "n_ctx": 64})"}),
                DType::f32) {
    write_gguf(path_, random_.model, random_.model.weights, nullptr, {.dtype = DType::q8_0});
  }

  void SetUp() override {
    if (is_guarded()) GTEST_SKIP() << "weights in guarded memory stay where they are";
  }
  static std::vector<float> logits_of(const LoadedModel& loaded, Repack repack, DType dtype = DType::f32) {
    ThreadPool pool(2);
    const int64_t vocab = loaded.model().config.vocab_size;
    Inference inference(loaded.model(), {pool, kernel_table(best_isa())},
                        {.dtype = dtype, .weights = dtype, .in_place = true, .repack = repack});
    std::vector<float> logits(static_cast<size_t>(kTokens * vocab));
    for (int i = 0; i < kTokens; ++i) {
      const int32_t id = i * 7 % static_cast<int32_t>(vocab);
      inference.append_all(0, {&id, 1}, make_view(logits.data() + i * vocab, {1, vocab}));
    }
    return logits;
  }

  TempDir dir_;
  RandomModel random_;
  std::string path_ = dir_.file("m.gguf");
};

TEST_P(RepackTest, ChangesNoBit) {
  if (!has_large_pages()) GTEST_SKIP() << "the system gives out no large pages";
  const LoadedModel never(path_), automatic(path_), always(path_);
  const std::vector<float> logits = logits_of(never, Repack::never);
  EXPECT_EQ(never.model().pages->moved(), 0);
  EXPECT_EQ(logits_of(automatic, Repack::automatic), logits);
  EXPECT_EQ(logits_of(always, Repack::always), logits);
  const int64_t moved = always.model().pages->moved();
  EXPECT_GT(moved, 0);
  EXPECT_EQ(moved % static_cast<int64_t>(kLargePage), 0);
  EXPECT_EQ(logits_of(always, Repack::always), logits) << "once they are there";
  EXPECT_EQ(always.model().pages->moved(), moved);
}

// A copy for training gives memory of the file back, but not of what was moved.
TEST_P(RepackTest, LeavesWeightsForOtherUses) {
  if (!has_large_pages()) GTEST_SKIP() << "the system gives out no large pages";
  write_model(dir_.path(), random_.model, random_.model.weights);
  const LoadedModel loaded(dir_.path(), std::nullopt, MatrixOrder::as_stored);
  const std::vector<float> logits = logits_of(loaded, Repack::always);
  EXPECT_GT(loaded.model().pages->moved(), 0);
  if (loaded.model().weights[0].transposed) return;
  const ParamBuffer copy(loaded.model().table, DType::f32, "weights");
  loaded.copy_to(copy);
  EXPECT_EQ(logits_of(loaded, Repack::always), logits);
  for (int id = 0; id < loaded.model().table.count(); ++id) {
    const TensorView& from = random_.model.weights[static_cast<size_t>(id)];
    EXPECT_EQ(std::memcmp(copy[id].data, from.data, static_cast<size_t>(from.size()) * sizeof(float)), 0);
  }
}

// fp32 weights that are packed as bf16 are not read where they are.
TEST_P(RepackTest, MovesOnlyWhatIsRead) {
  write_model(dir_.path(), random_.model, random_.model.weights);
  const LoadedModel loaded(dir_.path(), std::nullopt, MatrixOrder::as_stored);
  const auto bytes = [&](DType dtype) {
    return loaded.model().pages->bytes(
        Inference::weights_as_stored(loaded.model(), {.weights = dtype, .in_place = true}));
  };
  EXPECT_GT(bytes(DType::f32), 0);
  EXPECT_EQ(bytes(DType::bf16), 0);
  EXPECT_EQ(bytes(DType::q8_0), 0);
}

INSTANTIATE_TEST_SUITE_P(Families, RepackTest, testing::Values("llama", "gpt2"));

}  // namespace
}  // namespace gpt::test
