#include "report/report_html.h"

#include <gtest/gtest.h>

#include "support/count_of.h"

namespace gpt {
namespace {

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
  // The page has 18 texts, of which the title occurs twice. Each of the three drawings of the chart has 2
  // texts.
  EXPECT_EQ(test::count_of(html, ">wombat<"), 18u + 3u * 2u);
  EXPECT_EQ(test::count_of(html, "1,500"), 1u);
  EXPECT_EQ(test::count_of(html, "<td class=\"num\">1,234</td>"), 1u);
}

TEST(ReportHtml, NoTextBecomesMarkup) {
  const std::string html =
      report_html(full_report("</pre></style></title><script>alert('x')</script><img src=x>"));
  EXPECT_EQ(test::count_of(html, "<script"), 0u);
  EXPECT_EQ(test::count_of(html, "<img"), 0u);
  EXPECT_EQ(test::count_of(html, "</style>"), 1u);
  EXPECT_EQ(test::count_of(html, "<pre"), test::count_of(html, "</pre>"));
}

TEST(ReportHtml, IsSelfContainedAndForbidsTheRest) {
  const std::string html = report_html(full_report("t"));
  EXPECT_EQ(test::count_of(html, "default-src 'none'"), 1u);
  EXPECT_EQ(test::count_of(html, "http://www.w3.org/2000/svg"),
            test::count_of(html, "http:") + test::count_of(html, "https:"));
  EXPECT_EQ(test::count_of(html, "src="), 0u);
  EXPECT_EQ(test::count_of(html, "href="), 0u);
  EXPECT_EQ(test::count_of(html, "url("), 0u);
  EXPECT_EQ(test::count_of(html, "name=\"viewport\""), 1u);
}

TEST(ReportHtml, ElementsAreClosed) {
  const std::string html = report_html(full_report("t"));
  for (const std::string tag :
       {"div", "table", "dl", "dt", "dd", "pre", "h2", "svg", "main", "tr", "td", "th"}) {
    EXPECT_EQ(test::count_of(html, "<" + tag + ">") + test::count_of(html, "<" + tag + " "),
              test::count_of(html, "</" + tag + ">"))
        << tag;
  }
}

TEST(ReportHtml, EmptyPartsAreLeftOut) {
  const std::string html = report_html({});
  EXPECT_EQ(test::count_of(html, "<h2"), 0u);
  EXPECT_EQ(test::count_of(html, "<svg"), 0u);
  EXPECT_TRUE(html.ends_with("</html>\n"));
}

TEST(ReportHtml, SamplesKeepTheirLinesAndLoseTheirControls) {
  RunReport report;
  report.samples = {{1, "a", "\n\tb\x1b\xff"}};
  EXPECT_EQ(test::count_of(report_html(report), "</span>\n\tb\u241b\uFFFD</pre>"), 1u);
}

}  // namespace
}  // namespace gpt
