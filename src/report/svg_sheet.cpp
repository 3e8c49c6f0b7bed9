#include "report/svg_sheet.h"

#include <fmt/core.h>

#include "report/utf8_text.h"

namespace gpt {
namespace {

constexpr double kEdge = 14;
constexpr int kWidth = 860, kHeight = 480;

std::string document(const std::string& title, double width, double height, const std::string& css,
                     const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"gc\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect width=\"100%\" height=\"100%\" class=\"gc-bg\"/>\n{4}</svg>\n",
      width, height, escape_markup(title), css, body);
}

std::string placed(double x, double y, double scale, const char* classes, const std::string& svg) {
  return fmt::format("<g transform=\"translate({:.0f} {:.0f}) scale({:.0f})\" class=\"{}\">\n{}</g>\n", x, y,
                     scale, classes, svg);
}

}  // namespace

std::string stacked_charts_svg(const std::string& title, const std::vector<Chart>& charts,
                               const ChartSize& panel) {
  ChartSize size = panel;
  size.embedded = true;
  const double step = size.height + kEdge;
  std::string body;
  for (size_t i = 0; i < charts.size(); ++i)
    body +=
        placed(kEdge, kEdge + static_cast<double>(i) * step, 1, "gc-panel", line_chart_svg(charts[i], size));
  return document(title, size.width + 2 * kEdge, kEdge + static_cast<double>(charts.size()) * step,
                  chart_css(), body);
}

std::string chart_for_any_screen_svg(const Chart& chart) {
  const auto drawn = [&](int letters) {
    const int room = static_cast<int>(2 * kEdge);
    return line_chart_svg(chart, {(kWidth - room) / letters, (kHeight - room) / letters, true});
  };
  const std::string css =
      chart_css() +
      "svg.gc{max-width:100%}.gc .gc-phone{display:none}\n"
      "@media (max-width:560px){.gc .gc-phone{display:inline}.gc .gc-desk{display:none}}\n";
  return document(
      chart.title, kWidth, kHeight, css,
      placed(kEdge, kEdge, 1, "gc-desk", drawn(1)) + placed(kEdge, kEdge, 2, "gc-phone", drawn(2)));
}

}  // namespace gpt
