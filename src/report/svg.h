#pragma once

#include <string>

#include "report/chart.h"

namespace gpt {

struct ChartSize {
  int width = 860;  // in CSS pixels; the picture scales
  int height = 400;
  bool embedded = false;  // inside a page that has chart_css() already: no background, no <style>
};

// The style sheet of all charts: light, and dark where the reader prefers that. Its class names start with
// gc.
std::string chart_css();

// A line chart as a self-contained SVG document, also valid inside HTML. The legend stands above the plot.
// Series with more points than pixels keep the first, lowest, highest and last point of every pixel column,
// so no peak is lost. The y axis covers all values, except the outermost 0.2 % of long raw series, which are
// drawn at the edge. Any input gives a chart: without points it says so. Texts are escaped.
std::string line_chart_svg(const Chart& chart, const ChartSize& size = {});

}  // namespace gpt
