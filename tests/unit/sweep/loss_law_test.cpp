#include "sweep/loss_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "support/names.h"

namespace gpt {
namespace {

// Returns points of a known law: `sizes` models at each of three budgets. The losses have a relative error of
// `noise` with alternating sign.
std::vector<LossPoint> points_of(const LossLaw& law, int sizes, double noise) {
  std::vector<LossPoint> points;
  int sign = 1;
  for (const double flops : {1e12, 4e12, 1.6e13}) {
    for (int i = 0; i < sizes; ++i) {
      const double n = 2e4 * std::pow(3.0, i), d = flops / (6 * n);
      points.push_back({n, d, law.loss(n, d) * (1 + noise * sign * ((i * 7) % 3))});
      sign = -sign;
    }
  }
  return points;
}

constexpr LossLaw kLaw{.floor = 0.6, .A = 30, .a = 0.38, .B = 90, .b = 0.31};

TEST(LossLaw, FindsKnownExponentsWithAKnownFloor) {
  const auto fit = fit_loss_law(points_of(kLaw, 5, 0), 0.6);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->law.a, kLaw.a, 1e-3);
  EXPECT_NEAR(fit->law.b, kLaw.b, 1e-3);
  EXPECT_NEAR(fit->law.A, kLaw.A, 0.3);
  EXPECT_NEAR(fit->law.B, kLaw.B, 0.9);
  EXPECT_EQ(fit->law.floor, 0.6);
  EXPECT_LT(fit->rms_residual, 1e-4);
  EXPECT_EQ(fit->doubts, "");
  EXPECT_LE(fit->a.low, kLaw.a + 1e-3);
  EXPECT_GE(fit->a.high, kLaw.a - 1e-3);
}

TEST(LossLaw, FindsTheFloorToo) {
  const auto fit = fit_loss_law(points_of(kLaw, 6, 0), {});
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->law.a, kLaw.a, 0.02);
  EXPECT_NEAR(fit->law.b, kLaw.b, 0.02);
  EXPECT_NEAR(fit->law.floor, 0.6, 0.05);
  EXPECT_FALSE(fit->floor_known);
}

TEST(LossLaw, SmallErrorsMoveItLittleAndShowInTheResiduals) {
  const auto fit = fit_loss_law(points_of(kLaw, 6, 0.002), 0.6);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->law.a, kLaw.a, 0.05);
  EXPECT_NEAR(fit->law.b, kLaw.b, 0.05);
  EXPECT_GT(fit->rms_residual, 5e-4);
  EXPECT_LT(fit->rms_residual, 5e-3);
  EXPECT_LT(fit->a.low, fit->a.high);
}

TEST(LossLaw, RefusesWhatCannotBeFitted) {
  std::vector<LossPoint> points = points_of(kLaw, 4, 0);
  EXPECT_FALSE(fit_loss_law({}, {}));
  EXPECT_FALSE(fit_loss_law({points.begin(), points.begin() + 4}, 0.6));
  // Five runs with the same size and number of tokens are one point.
  EXPECT_FALSE(fit_loss_law(std::vector<LossPoint>(5, points[0]), 0.6));
  EXPECT_FALSE(fit_loss_law(points, 5.0));  // above some losses
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    std::vector<LossPoint> wrong = points;
    wrong[2].loss = bad;
    EXPECT_FALSE(fit_loss_law(wrong, 0.1)) << bad;
  }
}

TEST(LossLaw, DoubtsASingleBudget) {
  std::vector<LossPoint> points = points_of(kLaw, 6, 0.001);
  points.resize(6);
  const auto fit = fit_loss_law(points, 0.6);
  ASSERT_TRUE(fit);
  EXPECT_TRUE(test::names(fit->doubts, {format_count(fit->flops.low), format_count(fit->flops.high)}));
  EXPECT_EQ(loss_fit_json(*fit)["trusted"], false);
}

TEST(LossLaw, BestParametersIsTheMinimum) {
  for (const double flops : {1e12, 1e15, 1e18}) {
    const double n = kLaw.best_parameters(flops, 6);
    const auto loss = [&](double size) { return kLaw.loss(size, flops / (6 * size)); };
    EXPECT_LT(loss(n), loss(n * 1.01));
    EXPECT_LT(loss(n), loss(n / 1.01));
  }
}

}  // namespace
}  // namespace gpt
