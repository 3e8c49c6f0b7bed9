#include "train/schedule.h"

#include <gtest/gtest.h>

namespace gpt {
namespace {

TrainConfig with_steps(int64_t steps, bool eval_train = false) {
  TrainConfig c;
  c.steps = steps;
  c.eval_train = eval_train;
  complete(c);
  return c;
}

TEST(Rhythm, EvaluationTakesFivePercentByDefault) {
  for (const bool both : {false, true}) {
    for (const int64_t steps : {13, 20, 50, 99, 100, 300, 750, 1000, 2000, 5000, 20000, 1000000}) {
      const TrainConfig c = with_steps(steps, both);
      if (both && steps < 26) continue;  // two evaluations of one batch of each text take more
      EXPECT_LE(evaluation_share(c), kEvaluationShare) << steps;
      EXPECT_GE(evaluations(c, steps), 1) << steps;
      EXPECT_LE(evaluations(c, steps), 21) << steps;
      EXPECT_GE(c.eval_batches, 1);
      EXPECT_LE(c.eval_batches, 50);
    }
  }
  EXPECT_EQ(with_steps(5000).eval_every, 250);
  EXPECT_EQ(with_steps(5000).eval_batches, 39);
  EXPECT_EQ(with_steps(1).eval_every, 1) << "at least the end";
}

TEST(Rhythm, WhatIsGivenStays) {
  TrainConfig c;
  c.steps = 1000;
  c.eval_every = 20;
  complete(c);
  EXPECT_EQ(c.eval_every, 20);
  EXPECT_EQ(c.eval_batches, 3) << "50 times 3 take a twentieth";
  TrainConfig batches;
  batches.steps = 1000;
  batches.eval_batches = 50;
  complete(batches);
  EXPECT_EQ(batches.eval_batches, 50);
  EXPECT_EQ(batches.eval_every, 500);
  TrainConfig never;
  never.eval_every = 0;
  complete(never);
  EXPECT_EQ(never.eval_every, 0);
  EXPECT_EQ(evaluation_share(never), 0);
  TrainConfig wrong;
  wrong.eval_every = -7;
  EXPECT_ANY_THROW(complete(wrong));
}

TEST(Rhythm, AForwardPassIsAThirdOfAStep) {
  TrainConfig c;
  c.steps = 300;
  c.eval_every = 100;
  c.eval_batches = 50;
  complete(c);
  EXPECT_EQ(evaluated_batches(c, c.steps), 150);
  EXPECT_DOUBLE_EQ(evaluation_share(c), 50.0 / 350);
  c.eval_train = true;  // both texts, and before the first step
  EXPECT_EQ(evaluations(c, c.steps), 4);
  EXPECT_EQ(evaluated_batches(c, c.steps), 400);
}

}  // namespace
}  // namespace gpt
