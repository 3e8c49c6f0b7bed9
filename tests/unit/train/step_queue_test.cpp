#include "train/step_queue.h"

#include <gtest/gtest.h>

#include "support/error_of.h"
#include "support/names.h"
#include "support/small_models.h"
#include "train/step_history.h"

namespace gpt::test {
namespace {

constexpr int64_t kQueueBatch = 2, kQueueTokens = 8;

class StepQueueTest : public ::testing::Test {
 protected:
  StepQueueTest()
      : random_(make_config({.name = "small", .family = "gpt2", .keys = R"({"n_layer": 1})"}), DType::f32),
        step_(random_.model, random_.weights, make_adamw(random_.model.table, {}), backend(pool_, best_isa()),
              {.batch_size = kQueueBatch, .micro_batch = kQueueBatch, .n_ctx = kQueueTokens}),
        queue_(step_, config_, [this](int64_t step) {
          asked_.push_back(step);
          return batch(step);
        }) {
    config_.lr = 1e-2;
    config_.warmup = 0;
  }

  TrainStep::FillBatch batch(int64_t step) const {
    return [this, step](int64_t first, int64_t rows, const TrainStep::Samples& samples) {
      const std::vector<int32_t> all = random_ids(
          kQueueBatch * kQueueTokens + 1, random_.model.config.vocab_size, static_cast<uint64_t>(step));
      std::copy_n(all.begin() + first * kQueueTokens, rows * kQueueTokens, samples.ids);
      std::copy_n(all.begin() + first * kQueueTokens + 1, rows * kQueueTokens, samples.targets);
    };
  }

  ThreadPool pool_{1};
  TrainConfig config_;
  RandomModel random_;
  TrainStep step_;
  std::vector<int64_t> asked_;
  StepQueue queue_;
};

TEST_F(StepQueueTest, ReadsEachStepOnceInOrder) {
  EXPECT_EQ(queue_.late(), is_shadow() ? 1U : 0U);
  std::vector<double> losses;
  for (int64_t step = 0; step < 3; ++step) {
    int64_t calls = 0;
    queue_.make(step, {.before_micro_batch = [&] { ++calls; }, .before_update = [&] { calls += 10; }});
    EXPECT_EQ(calls, 11);
    while (const std::optional<StepState> state = queue_.read(1)) {
      EXPECT_EQ(state->step, step - 1) << "one step late";
      losses.push_back(state->loss);
    }
    EXPECT_EQ(queue_.unread(), 1);
  }
  const std::optional<StepState> last = queue_.read(0);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->step, 2);
  EXPECT_EQ(last->updates, 3);
  EXPECT_FALSE(queue_.read(0));
  EXPECT_EQ(losses.size(), 2U);
  EXPECT_NE(losses[0], losses[1]) << "each has the loss of its own batch";
  EXPECT_EQ(asked_, (std::vector<int64_t>{0, 1, 2}));
}

TEST_F(StepQueueTest, AHaltedStepIsComputedAgainAndEndsTheRun) {
  queue_.make(0, {});
  const std::vector<float> nan = {std::nanf("")};
  const TensorView weight = random_.weights[0];
  MappedView(weight, Access::read_write)->as<float>()[0] = nan[0];
  for (int id = 0; id < random_.model.table.count(); ++id)
    random_.model.packed->weights_changed(id);
  queue_.make(1, {});
  queue_.make(2, {});
  ASSERT_TRUE(queue_.read(0));
  const std::string message = error_of([&] { queue_.read(0); });
  EXPECT_TRUE(names(message, {1, random_.model.table[0].name})) << message;
  EXPECT_EQ(asked_, (std::vector<int64_t>{0, 1, 2, 1}));
  EXPECT_EQ(queue_.unread(), 0) << "later steps are halted too";
}

}  // namespace
}  // namespace gpt::test
