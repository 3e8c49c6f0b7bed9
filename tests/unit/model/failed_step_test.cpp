// Tests the state of the KV cache after a failed step.

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/inference.h"
#include "model/weight_source.h"
#include "support/backend.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

class FailingSource final : public WeightSource {
 public:
  static constexpr int64_t kNever = INT64_MAX;
  void begin(int64_t layer, int64_t) override {
    if (layer == fails_at) fail("layer {} cannot be read", layer);
  }
  int64_t fails_at = kNever;
};

class FailedStep : public testing::Test {
 protected:
  FailedStep() : random(make_config(small_config("llama")), DType::f32) {
    random.model.source = &source;
    ids = random_ids(random.model.config.n_ctx / 2, random.model.config.vocab_size, 3);
  }
  std::vector<float> append(Inference& inference, int slot, std::span<const int32_t> tokens) {
    const int64_t vocab_size = random.model.config.vocab_size;
    std::vector<float> logits(static_cast<size_t>(vocab_size));
    const Inference::Append part{slot, tokens};
    inference.append({&part, 1}, make_view(logits.data(), {1, vocab_size}));
    return logits;
  }

  FailingSource source;
  RandomModel random;
  ThreadPool pool{1};
  std::vector<int32_t> ids;
};

// The embedding, the last layer or the head fails. If the head fails, the cache already has all keys.
TEST_F(FailedStep, LeavesNoTokensToReuse) {
  const int64_t n_layer = random.model.config.n_layer;
  Inference fresh(random.model, backend(pool, best_isa()), {.slots = 1});
  const std::vector<float> expected = append(fresh, 0, ids);
  for (const int64_t layer : {WeightSource::kEmbeddings, n_layer - 1, n_layer}) {
    Inference inference(random.model, backend(pool, best_isa()), {.slots = 2});
    source.fails_at = layer;
    EXPECT_THROW(append(inference, 0, ids), Error);
    EXPECT_EQ(inference.length(0), 0);
    EXPECT_EQ(inference.prospect(ids).known, 0);
    inference.reset(0);
    EXPECT_EQ(inference.reuse(1, ids), 0);
    source.fails_at = FailingSource::kNever;
    EXPECT_EQ(append(inference, 1, ids), expected) << layer;
    EXPECT_GT(inference.prospect(ids).known, 0);
  }
}

TEST_F(FailedStep, KeepsTheTokensBefore) {
  const std::span<const int32_t> all = ids, first = all.first(all.size() / 2);
  Inference fresh(random.model, backend(pool, best_isa()), {.slots = 1});
  const std::vector<float> expected = append(fresh, 0, ids);
  Inference inference(random.model, backend(pool, best_isa()), {.slots = 2});
  append(inference, 0, first);
  inference.copy(0, 1);  // shares the last page when the step fails
  source.fails_at = random.model.config.n_layer - 1;
  EXPECT_THROW(append(inference, 0, all.subspan(first.size())), Error);
  EXPECT_EQ(inference.length(0), std::ssize(first));
  source.fails_at = FailingSource::kNever;
  for (const int slot : {1, 0})
    EXPECT_EQ(append(inference, slot, all.subspan(first.size())), expected) << slot;
}

}  // namespace
}  // namespace gpt::test
