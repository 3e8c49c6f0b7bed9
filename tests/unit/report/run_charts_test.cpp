#include "report/run_charts.h"

#include <gtest/gtest.h>

#include "support/names.h"

namespace gpt {
namespace {

std::vector<MetricRecord> run_of(int64_t steps) {
  std::vector<MetricRecord> records;
  for (int64_t s = 1; s <= steps; ++s) {
    records.push_back({{"step", s}, {"loss", 5.0 / static_cast<double>(s)}, {"lr", 1e-3}});
    if (s % 10 == 0) records.push_back({{"step", s}, {"val_loss", 1.0}});
  }
  return records;
}

TEST(RunCharts, LossOfALongRunIsRawSmoothedAndValidation) {
  const Chart chart = loss_chart(run_of(100), {{0.5, "floor"}});
  ASSERT_EQ(chart.series.size(), 3u);
  EXPECT_EQ(chart.series[0].style, SeriesStyle::raw);
  EXPECT_EQ(chart.series[1].style, SeriesStyle::line);
  EXPECT_TRUE(test::names(chart.series[1].name, {2}));  // 99 steps · 0.15 · 0.33^2
  EXPECT_EQ(chart.series[0].colour, chart.series[1].colour);
  EXPECT_EQ(chart.series[2].style, SeriesStyle::marked);
  EXPECT_EQ(chart.series[0].x.size(), 100u);
  EXPECT_EQ(chart.series[2].x, (std::vector<double>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
  EXPECT_EQ(chart.reference_lines.size(), 1u);
}

TEST(RunCharts, ShortAndEmptyRuns) {
  const Chart chart = loss_chart(run_of(5), {});
  ASSERT_EQ(chart.series.size(), 1u);
  EXPECT_EQ(chart.series[0].style, SeriesStyle::line);
  EXPECT_TRUE(loss_chart({}, {}).series.empty());
  EXPECT_TRUE(rate_charts({}).empty());
}

TEST(RunCharts, OnlyWhatWasMeasuredGetsAChart) {
  const std::vector<Chart> charts = rate_charts(run_of(100));
  ASSERT_EQ(charts.size(), 1u);
  EXPECT_EQ(charts[0].series.at(0).y, std::vector<double>(100, 1e-3)) << "the learning rate";
}

}  // namespace
}  // namespace gpt
