#include "report/chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gpt {
namespace {

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> out;
  for (const Tick& tick : ticks)
    out.push_back(tick.label);
  return out;
}

using Labels = std::vector<std::string>;

TEST(Chart, LinearTicksAreRound) {
  EXPECT_EQ(labels(linear_ticks(0, 5000, 10, true)),
            (Labels{"0", "500", "1000", "1500", "2000", "2500", "3000", "3500", "4000", "4500", "5000"}));
  EXPECT_EQ(labels(linear_ticks(0.3, 6.3, 6, false)), (Labels{"1", "2", "3", "4", "5", "6"}));
  EXPECT_EQ(labels(linear_ticks(-0.1, 0.1, 4, false)), (Labels{"-0.10", "-0.05", "0", "0.05", "0.10"}));
  EXPECT_EQ(labels(linear_ticks(0, 30000, 3, true)), (Labels{"0", "10k", "20k", "30k"}));
  EXPECT_EQ(labels(linear_ticks(0, 2e-4, 4, false)), (Labels{"0", "5e-5", "1.0e-4", "1.5e-4", "2.0e-4"}));
}

TEST(Chart, IntegerTicksNeverHaveFractions) {
  EXPECT_EQ(labels(linear_ticks(0, 2, 10, true)), (Labels{"0", "1", "2"}));
}

TEST(Chart, TicksEndWhereDoublesRunOutOfPrecision) {
  EXPECT_LE(linear_ticks(1e300, 1e300 * (1 + 1e-9), 5, false).size(), 12u);
  EXPECT_LE(linear_ticks(-1e300, 1e300, 5, false).size(), 12u);
  EXPECT_LE(linear_ticks(1, std::nextafter(1.0, 2.0), 5, false).size(), 12u);
}

TEST(Chart, LogTicks) {
  EXPECT_EQ(labels(log_ticks(0.4, 30, 6)), (Labels{"0.5", "1", "2", "5", "10", "20"}));
  EXPECT_EQ(labels(log_ticks(1e-5, 1e3, 4)), (Labels{"1e-5", "0.001", "0.1", "10", "1000"}));
  EXPECT_EQ(labels(log_ticks(2.1, 4.9, 6)), (Labels{"2.5", "3.0", "3.5", "4.0", "4.5"}));
  EXPECT_LE(log_ticks(1e-300, 1e300, 5).size(), 12u);
}

TEST(Chart, SmoothingKeepsConstantsAndDoesNotLag) {
  const std::vector<double> constant(20, 3.0);
  for (const double value : smoothed(constant, 10))
    EXPECT_NEAR(value, 3.0, 1e-12);
  std::vector<double> line;
  for (int i = 0; i < 201; ++i)
    line.push_back(i);
  EXPECT_NEAR(smoothed(line, 5)[100], 100, 1e-9);
}

TEST(Chart, SmoothingWeighsByDistance) {
  const std::vector<double> values = {1, 0, 0};
  const std::vector<double> result = smoothed(values, 2);  // weights 1, 1/2, 1/4
  EXPECT_DOUBLE_EQ(result[0], 1);  // nothing lies before it, so it does not look ahead
  EXPECT_DOUBLE_EQ(result[1], 0.5 / 2);
  EXPECT_DOUBLE_EQ(result[2], 0.25 / 1.75);
}

TEST(Chart, SmoothingStartsWhereTheValuesDo) {
  std::vector<double> steep;
  for (int i = 0; i < 100; ++i)
    steep.push_back(2 + 5 * std::exp(-i / 5.0));
  const std::vector<double> result = smoothed(steep, 20);
  EXPECT_DOUBLE_EQ(result[0], steep[0]);
  for (size_t i = 0; i < steep.size(); ++i)
    EXPECT_NEAR(result[i], steep[i], 0.8) << i;
}

TEST(Chart, SmoothingSkipsWhatIsNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {1, std::nan(""), inf, 1};
  const std::vector<double> result = smoothed(values, 4);
  EXPECT_DOUBLE_EQ(result[0], 1);
  EXPECT_TRUE(std::isnan(result[1]));
  EXPECT_TRUE(std::isnan(result[2]));
  EXPECT_DOUBLE_EQ(result[3], 1);
  EXPECT_TRUE(smoothed({}, 4).empty());
}

}  // namespace
}  // namespace gpt
