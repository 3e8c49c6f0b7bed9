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

std::vector<double> places(size_t n, double distance = 1) {
  std::vector<double> x;
  for (size_t i = 0; i < n; ++i)
    x.push_back(distance * static_cast<double>(i));
  return x;
}

TEST(Chart, SmoothingKeepsConstantsAndDoesNotLag) {
  const std::vector<double> constant(20, 3.0), line = places(201);
  for (const double value : smoothed(places(20), constant, 10))
    EXPECT_NEAR(value, 3.0, 1e-12);
  EXPECT_NEAR(smoothed(line, line, 5)[100], 100, 1e-9);
}

TEST(Chart, SmoothingWeighsByDistance) {
  const std::vector<double> x = {0, 1, 2}, y = {1, 0, 0};
  const std::vector<double> result = smoothed(x, y, 1 / std::log(2.0));  // weights 1, 1/2, 1/4
  EXPECT_DOUBLE_EQ(result[0], 1);                                        // the first value only uses itself
  EXPECT_NEAR(result[1], 0.5 / 2, 1e-15);
  EXPECT_NEAR(result[2], 0.25 / 1.75, 1e-15);
}

TEST(Chart, SmoothingStartsWhereTheValuesDo) {
  std::vector<double> steep;
  for (int i = 0; i < 100; ++i)
    steep.push_back(2 + 5 * std::exp(-i / 5.0));
  const std::vector<double> result = smoothed(places(100), steep, 20);
  EXPECT_DOUBLE_EQ(result[0], steep[0]);
  for (size_t i = 0; i < steep.size(); ++i)
    EXPECT_NEAR(result[i], steep[i], 0.8) << i;
}

// The smoothing window is measured in steps, so the line does not depend on the run length or the logging
// interval.
TEST(Chart, SmoothingIsTheSameForRunsOfAnyLengthAndRhythm) {
  const auto wave = [](double x) { return std::sin(x / 50); };
  std::vector<double> y, long_y, rare_y;
  for (const double x : places(601))
    y.push_back(wave(x));
  for (const double x : places(3001))
    long_y.push_back(wave(x));
  for (const double x : places(61, 10))
    rare_y.push_back(wave(x));
  const double at = smoothed(places(601), y, 20)[300];
  // Values more than 300 steps away have a weight of e^-15.
  EXPECT_NEAR(smoothed(places(3001), long_y, 20)[300], at, 1e-5);
  // A sum over every tenth step approximates the same integral. The error of the trapezoidal rule is about
  // 10^2 / (12 · 20^2).
  EXPECT_NEAR(smoothed(places(61, 10), rare_y, 20)[30], at, 0.03);
}

TEST(Chart, SmoothingSkipsWhatIsNotFinite) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> values = {1, std::nan(""), inf, 1};
  const std::vector<double> result = smoothed(places(4), values, 4);
  EXPECT_DOUBLE_EQ(result[0], 1);
  EXPECT_TRUE(std::isnan(result[1]));
  EXPECT_TRUE(std::isnan(result[2]));
  EXPECT_DOUBLE_EQ(result[3], 1);
  EXPECT_TRUE(smoothed({}, {}, 4).empty());
}

}  // namespace
}  // namespace gpt
