// Tests the promotion of memory-mapped weights to huge pages during inference (model/weight_pages.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/mapped_file.h"
#include "convert/gguf_export.h"
#include "model/inference.h"
#include "model/model_files.h"
#include "model/weight_pages.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

constexpr int kTokens = 48;  // all slices are moved after 32

// Models with a few MB of weights, one of them quantized. The embedding and the head are tied.
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
    if (is_shadow()) GTEST_SKIP() << "weights on a device stay where they are";
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
  if (const std::string why = no_large_pages_because(); !why.empty()) GTEST_SKIP() << why;
  const LoadedModel never(path_), automatic(path_), always(path_);
  const std::vector<float> logits = logits_of(never, Repack::never);
  EXPECT_EQ(never.model().pages->moved(), 0);
  EXPECT_TRUE(never.model().pages->waits_for(16));
  EXPECT_FALSE(never.model().pages->waits_for(17));
  EXPECT_EQ(logits_of(automatic, Repack::automatic), logits);
  EXPECT_FALSE(automatic.model().pages->waits_for(1));
  EXPECT_EQ(logits_of(always, Repack::always), logits);
  const int64_t moved = always.model().pages->moved();
  EXPECT_GT(moved, 0);
  EXPECT_EQ(moved % static_cast<int64_t>(kLargePage), 0);
  EXPECT_EQ(logits_of(always, Repack::always), logits) << "once they are there";
  EXPECT_EQ(always.model().pages->moved(), moved);
}

// Copying weights for training releases the mapped pages of the file, but not the weights that were moved to
// huge pages.
TEST_P(RepackTest, LeavesWeightsForOtherUses) {
  if (const std::string why = no_large_pages_because(); !why.empty()) GTEST_SKIP() << why;
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

// fp32 weights that are packed as bf16 are not read from the mapped file.
TEST_P(RepackTest, MovesOnlyWhatIsRead) {
  write_model(dir_.path(), random_.model, random_.model.weights);
  const LoadedModel loaded(dir_.path(), std::nullopt, MatrixOrder::as_stored);
  const auto bytes = [&](DType dtype) {
    return loaded.model().pages->bytes(Inference::weights_as_stored(loaded.model(), kernel_table(best_isa()),
                                                                    {.weights = dtype, .in_place = true}));
  };
  EXPECT_GT(bytes(DType::f32), 0);
  EXPECT_EQ(bytes(DType::bf16), 0);
  EXPECT_EQ(bytes(DType::q8_0), 0);
}

// A file of zeros that is mapped as one matrix. The test sets the amount of free memory that WeightPages
// sees.
struct Zeros {
  static constexpr int64_t kMiB = 1 << 20;
  explicit Zeros(int64_t size) {
    write_plain_file(path, "");
    std::filesystem::resize_file(path, static_cast<size_t>(size));
    file = MappedFile(path);
    weights = {make_view(reinterpret_cast<const float*>(file.bytes().data()), {size / 4096, 1024})};
  }
  void step(int n = 1) {
    for (int i = 0; i < n; ++i)
      pages.after_step(pool, weights, 1);
  }

  TempDir dir;
  std::string path = dir.file("zeros");
  MappedFile file;
  std::vector<TensorView> weights;
  ThreadPool pool{2};
  int64_t free = 1000 * kMiB;
  WeightPages pages{{&file}, [this] { return free; }};
};

// Other processes use up memory while weights are copied.
TEST(WeightPages, StopWhereMemoryRunsShort) {
  if (const std::string why = no_large_pages_because(); !why.empty()) GTEST_SKIP() << why;
  Zeros zeros(130 * Zeros::kMiB);
  const int64_t all = zeros.pages.bytes(zeros.weights);
  EXPECT_GE(all, 126 * Zeros::kMiB);
  zeros.step(15);
  EXPECT_EQ(zeros.pages.moved(), 0);
  zeros.step();
  if (!zeros.pages.waits_for(1)) GTEST_SKIP() << "the system has no large page left";
  EXPECT_EQ(zeros.pages.moved(), 32 * Zeros::kMiB);
  zeros.free = 150 * Zeros::kMiB;
  zeros.step(3);
  EXPECT_EQ(zeros.pages.moved(), 32 * Zeros::kMiB) << "94 of 150";
  EXPECT_FALSE(zeros.pages.waits_for(1));

  try {
    zeros.pages.move_all(zeros.pool, zeros.weights, 100 * Zeros::kMiB);
    FAIL() << "94 and 100 of 150";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(zeros.path), std::string::npos) << e.what();
  }
  EXPECT_EQ(zeros.pages.moved(), 32 * Zeros::kMiB);
  zeros.pages.move_all(zeros.pool, zeros.weights, 20 * Zeros::kMiB);
  EXPECT_EQ(zeros.pages.moved(), all) << "what was copied before is not copied again";
  EXPECT_EQ(std::ranges::count(zeros.file.bytes(), std::byte{0}), 130 * Zeros::kMiB);
}

TEST(WeightPages, CopyWhereFreeMemoryIsUnknown) {
  if (const std::string why = no_large_pages_because(); !why.empty()) GTEST_SKIP() << why;
  Zeros zeros(8 * Zeros::kMiB);
  zeros.free = 0;
  zeros.step(20);
  EXPECT_EQ(zeros.pages.moved(), 0);
  zeros.pages.move_all(zeros.pool, zeros.weights, 0);
  EXPECT_EQ(zeros.pages.moved(), zeros.pages.bytes(zeros.weights));
}

INSTANTIATE_TEST_SUITE_P(Families, RepackTest, testing::Values("llama", "gpt2"));

}  // namespace
}  // namespace gpt::test
