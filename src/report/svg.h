#pragma once

#include <string>
#include <vector>

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

// An SVG document around a body in the classes of chart_css(): with `css` on the ground of charts; with none
// to be embedded in a page that has both.
std::string svg_document(const std::string& title, double width, double height, const std::string& css,
                         const std::string& body);

// A line chart as a self-contained SVG document, also valid inside HTML. The legend stands above the plot.
// Series with more points than pixels keep the first, lowest, highest and last point of every pixel column,
// so no peak is lost. The y axis covers all values, except the outermost 0.2 % of long raw series, which are
// drawn at the edge. Any input gives a chart: without points it says so. Texts are escaped.
std::string line_chart_svg(const Chart& chart, const ChartSize& size = {});

// Several charts in one SVG document.

// Charts below each other, each of `panel` size; the title is read out, not drawn.
std::string stacked_charts_svg(const std::string& title, const std::vector<Chart>& charts,
                               const ChartSize& panel);

// A chart drawn twice: where the picture is shown less than 560 px wide (a phone), with letters of twice the
// size. For files that are looked at anywhere.
std::string chart_for_any_screen_svg(const Chart& chart);

}  // namespace gpt
