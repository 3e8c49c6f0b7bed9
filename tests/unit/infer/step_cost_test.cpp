#include "infer/step_cost.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace gpt {
namespace {

// Returns the costs learned from steps of 1 to `most` rows that take a + b * rows seconds, with noise of up
// to five percent.
StepCost after_steps(double a, double b, int64_t most, int steps, StepCost cost = {}) {
  RandomStream random(5, RandomSite::test);
  for (int i = 0; i < steps; ++i) {
    const auto rows = 1 + static_cast<int64_t>(random.next_u64() % static_cast<uint64_t>(most));
    const double noise = 0.95 + 0.1 * static_cast<double>(random.next_u64() % 1000) / 1000;
    cost.learn(rows, (a + b * static_cast<double>(rows)) * noise);
  }
  return cost;
}

TEST(StepCost, FindsTheCostOfARow) {
  EXPECT_EQ(StepCost().weight_rows(), StepCost::kGuess);
  EXPECT_NEAR(after_steps(2e-3, 1e-3, 16, 200).weight_rows(), 2, 1);
  EXPECT_NEAR(after_steps(30, 1, 16, 200).weight_rows(), 30, 10);  // the unit does not matter
  EXPECT_LT(after_steps(0, 1, 16, 200).weight_rows(), 3);
  EXPECT_GT(after_steps(1, 0, 16, 200).weight_rows(), 30);
}

TEST(StepCost, StepsOfOneSizeLeaveTheGuess) {
  EXPECT_NEAR(after_steps(2e-3, 1e-3, 1, 200).weight_rows(), StepCost::kGuess, 0.5);
}

TEST(StepCost, FollowsAChange) {
  EXPECT_NEAR(after_steps(20, 1, 16, 200, after_steps(2, 1, 16, 200)).weight_rows(), 20, 7);
}

TEST(StepCost, AStepThatWasInterruptedCountsLittle) {
  StepCost cost = after_steps(8, 1, 16, 200);
  cost.learn(2, 1e6);
  EXPECT_NEAR(cost.weight_rows(), 8, 5);
}

TEST(StepCost, PartsOfPromptsDoNotCount) {
  StepCost cost = after_steps(2, 1, 16, 200);
  const double before = cost.weight_rows();
  cost.learn(StepCost::kMostRows + 1, 1e6);
  EXPECT_EQ(cost.weight_rows(), before);
}

}  // namespace
}  // namespace gpt
