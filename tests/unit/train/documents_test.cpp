#include "train/documents.h"

#include <gtest/gtest.h>

#include "model/training_graph.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

constexpr int32_t kEnd = 9;

TEST(PackedDocuments, EndWithTheirTokenOrTheirWindow) {
  const std::vector<int32_t> ids = {1, 2, kEnd, 3, kEnd, 4,  //
                                    5, 6, 7,    8, 1,    kEnd};
  std::vector<int32_t> targets(ids.size(), 1);
  std::vector<uint8_t> starts(ids.size());
  PackedDocuments::mark(kEnd, ids, targets, starts);
  EXPECT_EQ(targets, (std::vector<int32_t>{1, 1, -1, 1, -1, 1, 1, 1, 1, 1, 1, -1}));
  PackedDocuments documents;
  TrainBatch batch{};
  documents.split(6, starts, batch);
  EXPECT_EQ(std::vector<int32_t>(batch.positions, batch.positions + ids.size()),
            (std::vector<int32_t>{0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 4, 5}));
  ASSERT_EQ(batch.seqs.size(), 4u);
  const int64_t begins[] = {0, 3, 5, 6}, lengths[] = {3, 2, 1, 6};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(batch.seqs[i].q_start, begins[i]);
    EXPECT_EQ(batch.seqs[i].kv_start, begins[i]);
    EXPECT_EQ(batch.seqs[i].q_len, lengths[i]);
    EXPECT_EQ(batch.seqs[i].kv_len, lengths[i]);
  }
}

class PackedLoss : public testing::TestWithParam<SmallConfig> {};

// Packed documents have the same losses as separate documents.
TEST_P(PackedLoss, IsThatOfTheDocumentsAlone) {
  const RandomModel random(make_config(GetParam()), DType::f64);
  ThreadPool pool(1);
  std::vector<int32_t> ids = random_ids(11, random.model.config.vocab_size, 2);
  std::replace(ids.begin(), ids.end(), kEnd, 0);
  ids[3] = ids[8] = kEnd;
  std::vector<int32_t> targets(ids.begin() + 1, ids.end());
  ids.pop_back();
  const auto loss = [&](int64_t begin, int64_t n, bool packed) {
    const std::vector<int32_t> part(ids.begin() + begin, ids.begin() + begin + n);
    std::vector<int32_t> part_targets(targets.begin() + begin, targets.begin() + begin + n);
    std::vector<uint8_t> starts(part.size());
    PackedDocuments::mark(kEnd, part, part_targets, starts);
    TrainBatch batch{.ids = part.data(), .targets = part_targets.data()};
    PackedDocuments documents;
    if (packed) documents.split(std::ssize(part), starts, batch);
    TrainingGraph graph(random.model, 1, std::ssize(part), {.gradients = false, .dtype = DType::f64},
                        backend(pool, Isa::ref));
    return graph.loss(batch);
  };
  EXPECT_NEAR(loss(0, 10, true), loss(0, 4, false) + loss(4, 5, false) + loss(9, 1, false), 1e-9);
  EXPECT_GT(std::abs(loss(0, 10, false) - loss(0, 10, true)), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Families, PackedLoss,
                         testing::Values(small_config("gpt2"), small_config("llama"),
                                         small_config("nanochat")),
                         [](const auto& param) { return test_name(param.param.name); });

}  // namespace
}  // namespace gpt::test
