#include "report/svg.h"

#include <gtest/gtest.h>

#include "support/count_of.h"

#include <cmath>
#include <limits>

namespace gpt {
namespace {

// Checks that every element is closed, that attributes and texts contain no raw markup, and that coordinates
// are finite.
void expect_sound(const std::string& svg) {
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(test::count_of(svg, "<text "), test::count_of(svg, "</text>"));
  EXPECT_EQ(test::count_of(svg, "<title>"), test::count_of(svg, "</title>"));
  for (size_t at = svg.find("d=\""); at != std::string::npos; at = svg.find("d=\"", at + 1)) {
    const std::string path = svg.substr(at + 3, svg.find('"', at + 3) - at - 3);
    EXPECT_EQ(path.find_first_not_of("MLh0123456789. -"), std::string::npos) << path;
  }
  EXPECT_EQ(test::count_of(svg, "=\"nan"), 0u);
  EXPECT_EQ(test::count_of(svg, "=\"inf"), 0u);
  EXPECT_EQ(test::count_of(svg, "=\"-nan"), 0u);
}

Chart one_series(std::vector<double> x, std::vector<double> y, SeriesStyle style = SeriesStyle::line) {
  Chart chart;
  chart.title = "t";
  chart.series.push_back({"s", std::move(x), std::move(y), style, 0});
  return chart;
}

// Returns the last path with these classes. The last path is the series itself and not its sample in the
// legend.
std::string series_path(const std::string& svg, const std::string& classes) {
  const size_t at = svg.rfind("\" class=\"" + classes + "\"");
  if (at == std::string::npos) return "";
  const size_t start = svg.rfind("d=\"", at);
  return svg.substr(start + 3, at - start - 3);
}

TEST(Svg, WithoutPointsItSaysSo) {
  const double nan = std::nan("");
  for (const Chart& chart : {Chart{}, one_series({}, {}), one_series({1, 2}, {nan, nan})}) {
    const std::string svg = line_chart_svg(chart);
    expect_sound(svg);
    EXPECT_EQ(test::count_of(svg, "class=\"gc-text gc-middle\""), 1u);
  }
}

TEST(Svg, OnePointIsADot) {
  const std::string svg = line_chart_svg(one_series({5}, {2}));
  expect_sound(svg);
  EXPECT_TRUE(series_path(svg, "gc-line gc-c0").ends_with("h0"));
}

TEST(Svg, MissingValuesBreakTheLine) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const std::string svg = line_chart_svg(one_series({1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, nan, 3, 2, inf, 1, 2}));
  expect_sound(svg);
  EXPECT_EQ(test::count_of(series_path(svg, "gc-line gc-c0"), "M"), 3u);
}

TEST(Svg, ExtremeValuesStayFinite) {
  for (const double value : {1e308, -1e308, 1e99, -1e99, 1e-99, 1e-101, 5e-324, 0.0}) {
    expect_sound(line_chart_svg(one_series({1, 2}, {value, 1})));
    expect_sound(line_chart_svg(one_series({1, 2}, {value, value})));
    Chart log = one_series({1, 2}, {value, 1});
    log.log_y = true;
    expect_sound(line_chart_svg(log));
  }
  expect_sound(line_chart_svg(one_series({1, 2, 3}, {-1e99, 0, 1e99})));
}

TEST(Svg, ManyPointsAreThinnedOutButPeaksStay) {
  std::vector<double> x, y;
  for (int i = 0; i < 100000; ++i) {
    x.push_back(i);
    y.push_back(i == 54321 ? 50.0 : 1 + 0.01 * (i % 7));
  }
  const std::string svg = line_chart_svg(one_series(x, y));
  expect_sound(svg);
  EXPECT_LT(svg.size(), 60000u);
  const std::string with_peak = series_path(svg, "gc-line gc-c0");
  y[54321] = 1;
  EXPECT_NE(with_peak, series_path(line_chart_svg(one_series(x, y)), "gc-line gc-c0"));
  EXPECT_NE(svg.find(">50<"), std::string::npos);  // the axis includes the peak
}

TEST(Svg, RareOutliersOfARawSeriesDoNotFlattenIt) {
  std::vector<double> x, y;
  for (int i = 0; i < 1000; ++i) {
    x.push_back(i);
    y.push_back(i == 500 ? 1e9 : 1.0 + 0.001 * i);
  }
  EXPECT_NE(line_chart_svg(one_series(x, y, SeriesStyle::raw)).find(">1.6<"), std::string::npos);
  EXPECT_EQ(line_chart_svg(one_series(x, y, SeriesStyle::line)).find(">1.6<"), std::string::npos);
}

TEST(Svg, TextsAreEscaped) {
  Chart chart = one_series({1, 2}, {1, 2}, SeriesStyle::marked);
  chart.title = chart.x_label = chart.y_label = chart.series[0].name = "<script>\"&\x01\xff";
  chart.series.push_back(chart.series[0]);
  chart.reference_lines = {{1.5, "</svg>"}};
  const std::string svg = line_chart_svg(chart);
  expect_sound(svg);
  EXPECT_EQ(test::count_of(svg, "<script"), 0u);
  EXPECT_EQ(test::count_of(svg, "</svg>"), 1u);
}

TEST(Svg, LegendStandsAboveThePlotAndWraps) {
  Chart chart;
  for (int i = 0; i < 12; ++i)
    chart.series.push_back({"a rather long series name", {0, 1}, {1, 2}, SeriesStyle::line, i});
  const std::string svg = line_chart_svg(chart, {360, 300});
  expect_sound(svg);
  EXPECT_EQ(test::count_of(svg, "a rather long series name"), 12u);
  // The plot area begins at the highest point of a line, which is below the lowest row of the legend.
  const double lowest_row = std::stod(svg.substr(svg.rfind("y=\"", svg.rfind("a rather long")) + 3));
  const std::string path = series_path(svg, "gc-line gc-c5");
  const double highest_point = std::stod(path.substr(path.rfind(' ') + 1));
  EXPECT_LT(lowest_row, highest_point);
}

TEST(Svg, OneSeriesNeedsNoLegend) {
  EXPECT_EQ(test::count_of(line_chart_svg(one_series({1, 2}, {1, 2})), ">s<"), 0u);
}

TEST(Svg, MarkedSeriesHasDotsAndItsLastValue) {
  const std::string svg = line_chart_svg(one_series({0, 100, 200}, {3, 2, 1.2345}, SeriesStyle::marked));
  EXPECT_EQ(test::count_of(svg, "<circle"), 3u);
  EXPECT_EQ(test::count_of(svg, "gc-end\">1.234<") + test::count_of(svg, "gc-end\">1.235<"), 1u);
}

TEST(Svg, ReferenceLinesAreInsideTheAxis) {
  Chart chart = one_series({0, 100}, {3, 2});
  const std::string without = line_chart_svg(chart);
  chart.reference_lines = {{0.412, "entropy floor 0.412"}};
  const std::string with = line_chart_svg(chart);
  EXPECT_EQ(test::count_of(without, "class=\"gc-ref\""), 0u);
  EXPECT_EQ(test::count_of(with, "class=\"gc-ref\""), 1u);
  EXPECT_EQ(test::count_of(with, "entropy floor 0.412"), 1u);
  EXPECT_EQ(test::count_of(without, ">0.5<"), 0u);
  EXPECT_EQ(test::count_of(with, ">0.5<"), 1u);
}

TEST(Svg, DarkAndLightColoursAndNoOutsideResources) {
  const std::string svg = line_chart_svg(one_series({1, 2}, {1, 2}));
  EXPECT_EQ(test::count_of(svg, "prefers-color-scheme:dark"), 1u);
  EXPECT_EQ(test::count_of(svg, "http"), 1u);  // the name of the SVG namespace
  EXPECT_EQ(test::count_of(line_chart_svg(one_series({1, 2}, {1, 2}), {400, 300, true}), "<style"), 0u);
}

TEST(Svg, TinySizesStillGiveAChart) {
  expect_sound(line_chart_svg(one_series({1, 2}, {1, 2}), {120, 10}));
}

TEST(SvgSheet, ChartsBelowEachOther) {
  const Chart chart = one_series({1, 2}, {1, 2});
  const std::string svg = stacked_charts_svg("<both>", {chart, chart}, {.width = 300, .height = 200});
  expect_sound(svg);
  EXPECT_EQ(test::count_of(svg, "<svg "), 3u);
  EXPECT_EQ(test::count_of(svg, "<style>"), 1u);
  EXPECT_NE(svg.find("viewBox=\"0 0 328 442\""), std::string::npos) << svg.substr(0, 200);
  EXPECT_NE(svg.find("<title>&lt;both&gt;"), std::string::npos);
}

TEST(SvgSheet, LettersAreTwiceAsLargeOnAPhone) {
  const std::string svg = chart_for_any_screen_svg(one_series({1, 2}, {1, 2}));
  expect_sound(svg);
  EXPECT_NE(svg.find("@media (max-width:560px)"), std::string::npos);
  EXPECT_NE(svg.find("scale(2)\" class=\"gc-phone\""), std::string::npos);
  EXPECT_NE(svg.find("scale(1)\" class=\"gc-desk\""), std::string::npos);
}

}  // namespace
}  // namespace gpt
