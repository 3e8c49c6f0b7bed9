#pragma once

#include <string>
#include <vector>

#include "report/chart.h"

namespace gpt {

struct ChartSize {
  int width = 860;  // in CSS pixels; the image can be scaled
  int height = 400;
  bool embedded = false;  // for a page that has chart_css(): no background and no <style>
};

// Returns the style sheet of all charts. It contains a light theme and a dark theme. The browser chooses the
// theme. All class names begin with gc.
std::string chart_css();

// Returns an SVG document with a body that uses the classes of chart_css(). With `css`, the document has its
// own style sheet and background. Without `css`, the document must be embedded in a page that has this style
// sheet and a background.
std::string svg_document(const std::string& title, double width, double height, const std::string& css,
                         const std::string& body);

// Returns a line chart as a self-contained SVG document, which is also valid inside HTML. The legend is above
// the plot. Series with more points than pixels keep the first, lowest, highest and last point of every pixel
// column, so no peak is lost. The y axis covers all values, except the outermost 0.2 % of long raw series,
// which are drawn at the edge. Any input is accepted; a chart without points shows a message. Texts are
// escaped.
std::string line_chart_svg(const Chart& chart, const ChartSize& size = {});

// Returns an SVG document with several charts below each other, each with the size `panel`. The title is read
// by screen readers and is not drawn.
std::string stacked_charts_svg(const std::string& title, const std::vector<Chart>& charts,
                               const ChartSize& panel);

// Returns an SVG document that contains a chart in two versions. If the image is shown less than 560 px wide
// (on a phone), the version with letters of twice the size is visible. Intended for files that are viewed on
// any device.
std::string chart_for_any_screen_svg(const Chart& chart);

}  // namespace gpt
