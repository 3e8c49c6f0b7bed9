// Tests the speed of prompt processing while other sequences generate.

#include "serve/models/prompt_pace.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpt::serve {
namespace {

// A machine on which a step takes `fixed` seconds and `row` seconds per row.
struct Machine {
  double fixed, row;
  double seconds(int64_t rows) const { return fixed + row * static_cast<double>(rows); }
};

// Returns the longest step of a long prompt while n sequences generate, relative to a step without prompts.
// Ignores the first few steps.
double longest(const Machine& machine, int64_t n, int64_t prompts, PromptPace& pace) {
  const double alone = machine.seconds(n);
  for (int i = 0; i < 5; ++i)
    pace.note({.generating = n, .seconds = alone});
  double most = 0;
  for (int i = 0; i < 300; ++i) {
    const int64_t rows = pace.rows();
    const double seconds = machine.seconds(n + rows);
    pace.note({.generating = n, .prompt_rows = rows, .prompts = prompts, .seconds = seconds});
    if (i >= 10) most = std::max(most, seconds / alone);
  }
  return most;
}

TEST(PromptPace, AStepTakesAtMostTwiceAsLong) {
  for (const double row : {1e-5, 1e-4, 3e-4, 1e-3}) {
    PromptPace pace(256);
    const Machine machine{16e-3, row};
    EXPECT_LE(longest(machine, 8, 1, pace), 2.01) << row;
    // The step should also use most of the allowed time.
    const double used = machine.seconds(8 + pace.rows()) / machine.seconds(8);
    EXPECT_TRUE(used > 1.5 || pace.rows() == 256 || pace.rows() == 0) << row << " " << used;
  }
}

TEST(PromptPace, PromptsAlwaysMoveOn) {
  PromptPace pace(256);
  longest({0, 1e-3}, 1, 1, pace);
  EXPECT_TRUE(pace.rows() >= PromptPace::kLeast || pace.rows() == 0);
  PromptPace narrow(4);
  longest({0, 1e-3}, 1, 1, narrow);
  EXPECT_TRUE(narrow.rows() == 4 || narrow.rows() == 0);
}

TEST(PromptPace, ManyPromptsBesideFewSequencesGetMore) {
  PromptPace one(512), many(512);
  const Machine machine{16e-3, 3e-4};
  longest(machine, 2, 1, one);
  EXPECT_LE(longest(machine, 2, 14, many), 8.01);
  one.note({.generating = 1, .seconds = 16e-3});
  many.note({.generating = 1, .seconds = 16e-3});
  EXPECT_GT(many.rows(), 3 * one.rows());
}

TEST(PromptPace, ShowsNowAndThenWhatAStepWithoutPromptsTakes) {
  PromptPace pace(256);
  pace.note({.generating = 4, .prompt_rows = 32, .prompts = 1, .seconds = 0.02});
  EXPECT_EQ(pace.rows(), 0) << "nothing is known yet";
  pace.note({.generating = 4, .seconds = 0.01});
  for (int i = 0; i < PromptPace::kMostMixed; ++i) {
    ASSERT_GT(pace.rows(), 0) << i;
    pace.note({.generating = 4, .prompt_rows = 1, .prompts = 1, .seconds = 0.02});
  }
  EXPECT_EQ(pace.rows(), 0);
  pace.note({.generating = 0, .prompt_rows = 256, .prompts = 1, .seconds = 1});
  EXPECT_EQ(pace.rows(), 0) << "steps without sequences that generate tell nothing";
}

}  // namespace
}  // namespace gpt::serve
