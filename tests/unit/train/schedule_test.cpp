#include "train/schedule.h"

#include <gtest/gtest.h>

namespace gpt {
namespace {

// The table of the Mini-GPT course: 10,000 steps with 200 warm-up steps and a peak of 3e-4. Rounding makes
// the bar at step 200 one character shorter, although the rate there is the peak.
TEST(Schedule, TheTableOfTheCourse) {
  TrainConfig c;
  c.steps = 10000;
  c.warmup = 200;
  c.lr = 3e-4;
  complete(c);
  const std::vector<int64_t> steps = {0, 50, 100, 150, 200, 500, 1000, 3000, 5000, 8000, 10000};
  EXPECT_EQ(schedule_steps(c), steps);
  const double rates[] = {0,       .000075, .000150, .000225, .000300, .000299,
                          .000296, .000249, .000169, .000057, .000030};
  const size_t bars[] = {0, 10, 20, 30, 40, 39, 39, 33, 22, 7, 4};
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR(learning_rate(c, steps[i]), rates[i], 5e-7) << steps[i];
    EXPECT_EQ(schedule_bar(c, steps[i], 40).size(), bars[i]) << steps[i];
  }
}

TEST(Schedule, ExactRatesOfTheTrainingRun) {
  TrainConfig c;
  c.steps = 5000;
  c.warmup = 100;
  c.lr = 3e-4;
  complete(c);
  const std::pair<int64_t, double> rows[] = {{0, 0},          {100, .000300},  {500, .000296},
                                             {1000, .000278}, {2000, .000212}, {3000, .000127},
                                             {4000, .000057}, {4999, .000030}};
  for (const auto& [step, rate] : rows)
    EXPECT_NEAR(learning_rate(c, step), rate, 5e-7) << step;
}

TEST(Schedule, RowsOfShortRuns) {
  TrainConfig c;
  c.steps = 3;
  c.warmup = 100;
  EXPECT_EQ(schedule_steps(c), (std::vector<int64_t>{0, 1, 2, 3}));
  c.warmup = 0;
  c.lr = c.min_lr = 0;
  EXPECT_EQ(schedule_bar(c, 1, 40), "");
}

}  // namespace
}  // namespace gpt
