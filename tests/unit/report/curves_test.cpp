#include "report/run_charts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/report_html.h"

namespace gpt {
namespace {

using nlohmann::json;

struct Data {
  std::vector<double> x, y;
};

Data waves(size_t n) {
  Data out;
  for (size_t i = 0; i < n; ++i) {
    out.x.push_back(static_cast<double>(i));
    out.y.push_back(std::sin(static_cast<double>(i)) + 2);
  }
  return out;
}

TEST(Curves, FewPointsStayAsTheyAre) {
  const Data data = waves(2000);
  const ThinnedCurve curve = thinned(data.x, data.y, 2000);
  EXPECT_EQ(curve.x, data.x);
  EXPECT_EQ(curve.y, data.y);
  EXPECT_TRUE(curve.mean_x.empty());
  EXPECT_TRUE(thinned({}, {}, 4).x.empty());
}

TEST(Curves, ThinningKeepsPeaksOrderAndEnds) {
  Data data = waves(100000);
  data.y[54321] = 1000;
  data.y[777] = -1000;
  data.y[50] = NAN;
  const ThinnedCurve curve = thinned(data.x, data.y, 2000);
  EXPECT_LE(curve.x.size(), 2000u);
  EXPECT_GE(curve.x.size(), 1500u);
  EXPECT_EQ(curve.x.front(), 0);
  EXPECT_EQ(curve.x.back(), 99999);
  EXPECT_TRUE(std::is_sorted(curve.x.begin(), curve.x.end()));
  EXPECT_EQ(*std::max_element(curve.y.begin(), curve.y.end()), 1000);
  EXPECT_EQ(*std::min_element(curve.y.begin(), curve.y.end()), -1000);
  ASSERT_EQ(curve.mean_x.size(), curve.mean_y.size());
  EXPECT_NEAR(curve.mean_y[500], 2, 0.1);
  for (const size_t size : {4u, 5u, 7u})
    EXPECT_LE(thinned(data.x, data.y, size).x.size(), size);
}

TEST(Curves, OnlyNotFiniteValuesLeaveNothing) {
  const std::vector<double> x(100, 1.0), y(100, NAN);
  EXPECT_TRUE(thinned(x, y, 10).x.empty());
}

TEST(Curves, JsonHasAllNumbersOfAllRuns) {
  const std::vector<MetricRecord> records = {
      {{"step", int64_t{1}}, {"loss", 5.123456789}, {"sample", std::string("text")}},
      {{"step", int64_t{2}}, {"loss", NAN}, {"grad_norm/block 0", 1e-30}},
      {{"loss", 1.0}},
      {{"step", INFINITY}, {"loss", 1.0}}};
  const json out = json::parse(curves_json({.runs = {{"a\xff", records}, {"b", {}}},
                                            .loss_lines = {{1.5, "floor"}},
                                            .running = true,
                                            .written = 7}));
  EXPECT_EQ(out.at("running"), true);
  EXPECT_EQ(out.at("written"), 7);
  EXPECT_EQ(out.at("lines")[0].at("y"), 1.5);
  EXPECT_EQ(out.at("runs")[0].at("name"), "a\uFFFD");
  const json& curves = out.at("runs")[0].at("curves");
  EXPECT_EQ(curves.size(), 2u);
  EXPECT_EQ(curves.at("loss").at("x"), json({1, 2}));
  EXPECT_EQ(curves.at("loss").at("y"), json({5.12346, nullptr}));
  EXPECT_EQ(curves.at("grad_norm/block 0").at("y")[0], 1e-30);
  EXPECT_TRUE(out.at("runs")[1].at("curves").empty());
}

TEST(Curves, LongRunsMakeSmallPages) {
  std::vector<MetricRecord> records;
  for (int64_t i = 0; i < 100000; ++i)
    records.push_back({{"step", i}, {"loss", 1 + 1.0 / static_cast<double>(i + 1)}, {"lr", 1e-3}});
  EXPECT_LT(curves_json({.runs = {{"run", records}}}).size(), size_t{200} << 10);
}

TEST(Curves, ManyKeysAreCut) {
  std::vector<MetricRecord> records(1);
  records[0].emplace_back("step", int64_t{1});
  for (size_t i = 0; i < 2 * kMaxCurves; ++i)
    records[0].emplace_back("key" + std::to_string(i), 1.0);
  const json out = json::parse(curves_json({.runs = {{"run", records}}}));
  EXPECT_EQ(out.at("runs")[0].at("curves").size(), kMaxCurves);
}

TEST(Curves, NamesCannotLeaveTheScriptElement) {
  const std::string hostile = "</script><script>alert(1)</script><!--";
  const std::vector<MetricRecord> records = {{{"step", int64_t{1}}, {hostile, 1.0}}};
  RunReport report;
  report.curves = curves_json({.runs = {{hostile, records}}, .loss_lines = {{1, hostile}}});
  const std::string html = report_html(report);
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(html.find("<!--"), std::string::npos);
  const std::string open = "id=\"data\">";
  const size_t begin = html.find(open) + open.size();
  const json data = json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  EXPECT_EQ(data.at("runs")[0].at("name"), hostile);
  EXPECT_NE(html.find("script-src 'unsafe-inline'"), std::string::npos);
}

}  // namespace
}  // namespace gpt
