#include "report/report_html.h"

#include <gtest/gtest.h>

namespace gpt {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++n;
  return n;
}

RunReport full_report(const std::string& text) {
  Chart chart;
  chart.title = text;
  chart.series.push_back({text, {1, 2}, {2, 1}, SeriesStyle::marked, 0});
  RunReport report;
  report.title = report.subtitle = report.footer = text;
  report.headlines = {{text, text, text}};
  report.chart = chart;
  report.small_charts = {chart};
  report.samples = {{1500, text, text}};
  report.commands = {{text, text}};
  report.sections = {{text, text, {{text, text}}, {{text, {{text, "n"}, {{text, "1,234"}}}}}}};
  return report;
}

TEST(ReportHtml, EveryPartIsShown) {
  const std::string html = report_html(full_report("wombat"));
  // 18 texts in the page (the title twice), and 2 in each of the three drawings of the chart.
  EXPECT_EQ(count(html, ">wombat<"), 18u + 3u * 2u);
  EXPECT_EQ(count(html, "1,500"), 1u);
  EXPECT_EQ(count(html, "<td class=\"num\">1,234</td>"), 1u);
}

TEST(ReportHtml, NoTextBecomesMarkup) {
  const std::string html =
      report_html(full_report("</pre></style></title><script>alert('x')</script><img src=x>"));
  EXPECT_EQ(count(html, "<script"), 0u);
  EXPECT_EQ(count(html, "<img"), 0u);
  EXPECT_EQ(count(html, "</style>"), 1u);
  EXPECT_EQ(count(html, "<pre"), count(html, "</pre>"));
}

TEST(ReportHtml, IsSelfContainedAndForbidsTheRest) {
  const std::string html = report_html(full_report("t"));
  EXPECT_EQ(count(html, "default-src 'none'"), 1u);
  EXPECT_EQ(count(html, "http://www.w3.org/2000/svg"), count(html, "http:") + count(html, "https:"));
  EXPECT_EQ(count(html, "src="), 0u);
  EXPECT_EQ(count(html, "href="), 0u);
  EXPECT_EQ(count(html, "url("), 0u);
  EXPECT_EQ(count(html, "name=\"viewport\""), 1u);
}

TEST(ReportHtml, ElementsAreClosed) {
  const std::string html = report_html(full_report("t"));
  for (const std::string tag :
       {"div", "table", "dl", "dt", "dd", "pre", "h2", "svg", "main", "tr", "td", "th"}) {
    EXPECT_EQ(count(html, "<" + tag + ">") + count(html, "<" + tag + " "), count(html, "</" + tag + ">"))
        << tag;
  }
}

TEST(ReportHtml, EmptyPartsAreLeftOut) {
  const std::string html = report_html({});
  EXPECT_EQ(count(html, "<h2"), 0u);
  EXPECT_EQ(count(html, "<svg"), 0u);
  EXPECT_TRUE(html.ends_with("</html>\n"));
}

TEST(ReportHtml, SamplesKeepTheirLinesAndLoseTheirControls) {
  RunReport report;
  report.samples = {{1, "a", "\n\tb\x1b\xff"}};
  EXPECT_EQ(count(report_html(report), "</span>\n\tb\u241b\uFFFD</pre>"), 1u);
}

}  // namespace
}  // namespace gpt
