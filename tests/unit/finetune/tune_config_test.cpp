#include "finetune/tune_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "finetune/tune_report.h"

namespace gpt {
namespace {

double steps(const TuneLength& length, int64_t samples) {
  return length.epochs * static_cast<double>(samples) / static_cast<double>(length.batch_size);
}

TEST(TuneDefaults, OfGpt1AreItsPapers) {
  const nlohmann::json defaults = tuning_defaults("classify");
  EXPECT_EQ(defaults["lr"], 6.25e-5);
  EXPECT_EQ(defaults["batch_size"], 32);
  EXPECT_EQ(defaults["schedule"], "linear");
  EXPECT_EQ(tuning_defaults("classify", false, 768)["lr"], 6.25e-5);
  const TuneLength length = fitting_length(100000, {}, 0);
  EXPECT_EQ(length.batch_size, 32);
  EXPECT_EQ(length.epochs, 3);
}

TEST(TuneDefaults, NarrowModelsTakeLargerSteps) {
  double before = 1;
  for (const int64_t width : {16, 64, 128, 384, 768, 2048, 4096}) {
    const double lr = tuning_defaults("chat", false, width)["lr"];
    EXPECT_LT(lr, before) << width;
    EXPECT_GT(lr, 1e-6) << width;
    EXPECT_GT(tuning_defaults("chat", true, width)["lr"].get<double>(), lr) << "an adapter takes larger ones";
    before = lr;
  }
}

// With less data, batches become smaller and then the number of epochs grows, up to ten.
TEST(TuneDefaults, FewExamplesGiveEnoughSteps) {
  int64_t batch = 1;
  double epochs = 10;
  for (int64_t samples = 1; samples < 10'000'000; samples = samples * 5 / 4 + 1) {
    const TuneLength length = fitting_length(samples, {}, 0);
    EXPECT_GE(length.batch_size, batch);
    EXPECT_LE(length.epochs, epochs);
    EXPECT_GE(length.epochs, 3);
    if (length.epochs < 10) {
      EXPECT_GE(steps(length, samples), kFewestSteps) << samples;
    }
    batch = length.batch_size;
    epochs = length.epochs;
  }
  EXPECT_EQ(batch, 32);
  EXPECT_EQ(epochs, 3);
}

TEST(TuneDefaults, TheBatchHoldsWholeGroupsAndTheEpochsAskedFor) {
  for (const int64_t unit : {1, 2, 3, 16, 48, 200}) {
    for (const int64_t samples : {10, 1000, 100000}) {
      const TuneLength length = fitting_length(samples, {.unit = unit}, 6);
      EXPECT_EQ(length.batch_size % unit, 0) << unit;
      EXPECT_LE(length.batch_size, std::max<int64_t>(unit, 32)) << unit;
      EXPECT_EQ(length.epochs, 6);
    }
  }
}

TEST(TuneDefaults, TheSmallestBatchIsKept) {
  const BatchSizes sizes{.unit = 16, .smallest = 128, .largest = 128};
  EXPECT_EQ(fitting_length(100, sizes, 3).batch_size, 128);
  EXPECT_EQ(fitting_length(100, {.unit = 48, .smallest = 128, .largest = 128}, 3).batch_size, 96);
}

TEST(TuneReport, KnowsAFallingLoss) {
  using Losses = std::vector<double>;
  EXPECT_TRUE(is_still_falling(Losses{3, 2, 1.5}, {}));
  EXPECT_FALSE(is_still_falling(Losses{3, 2, 1.999}, {}));
  EXPECT_FALSE(is_still_falling(Losses{3, 2, 2.5}, {}));
  EXPECT_FALSE(is_still_falling(Losses{3, 0.2, 0.1}, {})) << "most of the way is done";
  EXPECT_FALSE(is_still_falling(Losses{3, 2.9}, {}));
  EXPECT_TRUE(is_still_falling(Losses{-0.2, -0.4}, {})) << "minus a reward";
  EXPECT_FALSE(is_still_falling(Losses{-0.4, -0.2}, {}));
  EXPECT_FALSE(is_still_falling({}, {}));
  EXPECT_FALSE(is_still_falling(Losses{2}, Losses{3, 1}));
  EXPECT_TRUE(is_still_falling(Losses{2}, Losses{5, 5, 4, 4, 3, 3, 2, 2}));
  EXPECT_FALSE(is_still_falling({}, Losses{5, 4, 3, 2, 2, 2, 2, 2}));
}

}  // namespace
}  // namespace gpt
