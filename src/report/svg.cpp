#include "report/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "base/ranges.h"
#include "report/utf8_text.h"

namespace gpt {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
// Values beyond these limits count as missing. Padding and logarithms of other values cannot overflow or
// underflow.
constexpr double kLargest = 1e100, kSmallest = 1e-100;
constexpr double kTextHeight = 13, kTitleHeight = 16, kLineHeight = 20;
constexpr double kLegendSwatch = 22, kLegendGap = 18;
constexpr int kColours = 6;

// The palettes for light and dark themes. Neighbouring colours are easy to distinguish, also for the
// colour-blind.
constexpr std::array<const char*, kColours> kLight = {"#2a78d6", "#eb6834", "#1baf7a",
                                                      "#4a3aa7", "#eda100", "#e87ba4"};
constexpr std::array<const char*, kColours> kDark = {"#3987e5", "#d95926", "#199e70",
                                                     "#9085e9", "#c98500", "#d55181"};

struct Range {
  double low = kUnbounded, high = -kUnbounded;
  bool empty() const { return low > high; }
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Maps values to pixels on a linear or logarithmic scale.
struct Axis {
  double low, high;
  double pixel_low, pixel_high;
  bool log;

  double place(double value) const { return log ? std::log10(value) : value; }
  double pixel(double value) const {
    const double share = (place(value) - place(low)) / (place(high) - place(low));
    return pixel_low + std::clamp(share, 0.0, 1.0) * (pixel_high - pixel_low);
  }
};

struct Plot {
  double left, right, top, bottom;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

struct Point {
  double x, y;
};

// Returns true if the point can be drawn. Returns false for NaN.
bool usable(double x, double y, const Chart& chart) {
  return std::abs(x) <= kLargest && std::abs(y) <= kLargest && (!chart.log_y || y >= kSmallest) &&
         (!chart.log_x || x >= kSmallest);
}

bool usable_line(double y, const Chart& chart) {
  return usable(1, y, chart);
}

// Returns the connected pieces of a series. A missing value ends a piece.
std::vector<std::vector<Point>> pieces_of(const ChartSeries& series, const Chart& chart) {
  std::vector<std::vector<Point>> pieces(1);
  for (size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
    if (usable(series.x[i], series.y[i], chart)) {
      pieces.back().push_back({series.x[i], series.y[i]});
    } else if (!pieces.back().empty()) {
      pieces.emplace_back();
    }
  }
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

std::vector<Point> points_of(const ChartSeries& series, const Chart& chart) {
  std::vector<Point> points;
  for (const auto& piece : pieces_of(series, chart))
    points.insert(points.end(), piece.begin(), piece.end());
  return points;
}

void add_y_values(Range& range, const ChartSeries& series, const Chart& chart) {
  std::vector<Point> points = points_of(series, chart);
  if (points.empty()) return;
  std::ranges::sort(points, {}, &Point::y);
  const size_t outliers = series.style == SeriesStyle::raw ? points.size() / 500 : 0;
  range.add(points[outliers].y);
  range.add(points[points.size() - 1 - outliers].y);
}

// Widens a range that is (nearly) empty, so that dividing by its width is safe.
Range widened(Range range, double fallback_low, double fallback_high, bool log) {
  if (range.empty()) return {fallback_low, fallback_high};
  const double size = std::max(std::abs(range.low), std::abs(range.high));
  if (range.high - range.low > std::max(size * 1e-9, kSmallest)) return range;
  if (log) return {range.low / 2, range.high * 2};
  const double margin = size > kSmallest ? size * 0.1 : 1;
  return {range.low - margin, range.high + margin};
}

Range padded(const Range& range, double below, double above, bool log) {
  if (log) {
    const double decades = std::log10(range.high) - std::log10(range.low);
    return {range.low * std::pow(10, -below * decades), range.high * std::pow(10, above * decades)};
  }
  const double span = range.high - range.low;
  return {range.low - below * span, range.high + above * span};
}

Range x_range(const Chart& chart) {
  Range range;
  for (const ChartSeries& series : chart.series) {
    for (const Point& point : points_of(series, chart))
      range.add(point.x);
  }
  if (chart.log_x) {
    const Range wide = widened(range, 1, 10, true);
    return padded(wide, 0.02, 0.02, true);
  }
  // If the first value is small compared with the last value, begin the axis at 0. This is the case for
  // steps, which begin at 1 or at the first logging interval.
  if (range.low > 0 && range.low < range.high / 20) range.low = 0;
  return widened(range, 0, 1, false);
}

bool has_points(const Chart& chart) {
  return std::ranges::any_of(chart.series,
                             [&](const ChartSeries& series) { return !pieces_of(series, chart).empty(); });
}

// Leaves room at the ends of the axis for the label of a reference line.
Range y_range(const Chart& chart, double plot_height) {
  Range data;
  for (const ChartSeries& series : chart.series)
    add_y_values(data, series, chart);
  Range all = data;
  for (const ReferenceLine& line : chart.reference_lines) {
    if (usable_line(line.y, chart)) all.add(line.y);
  }
  const double label = kLineHeight / plot_height, margin = 0.03;
  const bool line_below = all.low < data.low;
  const double below = line_below ? label : margin, above = all.high > data.high ? label : margin;
  const Range wide = widened(all, chart.log_y ? 0.1 : 0, 1, chart.log_y);
  Range result = padded(wide, below, above, chart.log_y);
  // If the data is positive, the axis has no negative part.
  if (!chart.log_y && !line_below && wide.low >= 0) result.low = std::max(result.low, 0.0);
  return result;
}

bool all_integers(const Chart& chart) {
  for (const ChartSeries& series : chart.series) {
    for (const double x : series.x) {
      if (std::isfinite(x) && x != std::floor(x)) return false;
    }
  }
  return true;
}

double text_width(std::string_view text, double size) {
  return 0.56 * size * display_width(text);
}

std::string text_element(double x, double y, const char* classes, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, classes,
                     escape_markup(text));
}

std::string line_element(double x1, double y1, double x2, double y2, const std::string& classes) {
  return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" class=\"{}\"/>\n", x1, y1, x2, y2, classes);
}

std::string series_classes(const ChartSeries& series) {
  constexpr const char* kStyles[] = {"gc-raw", "gc-line", "gc-marked"};
  return fmt::format("{} gc-c{}", kStyles[static_cast<size_t>(series.style)],
                     std::abs(series.colour % kColours));
}

std::string value_label(double value) {
  return fmt::format("{:.4g}", value);
}

// --- Lines of the series

// Draws a piece as a path. In every pixel column, only the first, lowest, highest and last point are kept.
std::string path_of(const std::vector<Point>& piece, const Axis& x, const Axis& y) {
  const auto pixels = transformed(piece, [&](const Point& point) {
    return Point{x.pixel(point.x), y.pixel(point.y)};
  });
  std::string path;
  for (auto begin = pixels.begin(); begin != pixels.end();) {
    const auto end = std::find_if(begin, pixels.end(),
                                  [&](const Point& p) { return std::floor(p.x) != std::floor(begin->x); });
    const auto extremes = std::ranges::minmax_element(begin, end, {}, &Point::y);
    for (const auto kept : std::set{begin, extremes.min, extremes.max, std::prev(end)})
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', kept->x, kept->y);
    begin = end;
  }
  return piece.size() == 1 ? path + "h0" : path;  // round line ends make it a dot
}

std::string draw_dots(const Chart& chart, const ChartSeries& series, const Axis& x, const Axis& y) {
  const std::vector<Point> points = points_of(series, chart);
  constexpr double kDotSpacing = 9;  // at a smaller spacing, dots would hide the line
  if (static_cast<double>(points.size()) * kDotSpacing > std::abs(x.pixel_high - x.pixel_low)) return "";
  std::string out;
  for (const Point& point : points) {
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" class=\"gc-dot gc-c{}\"><title>{} {:g}: "
        "{}</title></circle>\n",
        x.pixel(point.x), y.pixel(point.y), std::abs(series.colour % kColours), escape_markup(chart.x_label),
        point.x, value_label(point.y));
  }
  return out;
}

std::string draw_series(const Chart& chart, const ChartSeries& series, const Axis& x, const Axis& y) {
  std::string path;
  for (const auto& piece : pieces_of(series, chart))
    path += path_of(piece, x, y);
  if (path.empty()) return "";
  std::string out = fmt::format("<path d=\"{}\" class=\"{}\"/>\n", path, series_classes(series));
  if (series.style == SeriesStyle::marked) out += draw_dots(chart, series, x, y);
  return out;
}

// Returns the last value of every marked series, from high to low.
std::vector<double> last_values(const Chart& chart) {
  std::vector<double> values;
  for (const ChartSeries& series : chart.series) {
    const std::vector<Point> points = points_of(series, chart);
    if (series.style == SeriesStyle::marked && !points.empty()) values.push_back(points.back().y);
  }
  std::ranges::sort(values, std::ranges::greater{});
  return values;
}

// Draws the last values to the right of the plot. Labels that would overlap are moved apart.
std::string draw_end_labels(const Chart& chart, const Plot& plot, const Axis& y) {
  std::string out;
  double free_from = plot.top;
  for (const double value : last_values(chart)) {
    const double at = std::max(y.pixel(value), free_from);
    out += text_element(plot.right + 9, at + 4.5, "gc-end", value_label(value));
    free_from = at + kTextHeight + 2;
  }
  return out;
}

// --- Axes, legend and reference lines

std::string draw_reference_lines(const Chart& chart, const Plot& plot, const Axis& y) {
  std::string lines, labels;
  for (const ReferenceLine& line : chart.reference_lines) {
    if (!usable_line(line.y, chart)) continue;
    const double at = y.pixel(line.y);
    lines += line_element(plot.left, at, plot.right, at, "gc-ref");
    // Place the label on the outer side of the line, away from most of the data. The label is under a line in
    // the lower half of the plot and above a line in the upper half.
    const bool under = at > (plot.top + plot.bottom) / 2 && at + kLineHeight <= plot.bottom + 5;
    const bool above = at - kLineHeight >= plot.top - 5;
    labels += text_element(plot.right - 4, under || !above ? at + 14 : at - 6, "gc-reflabel", line.label);
  }
  return lines + labels;
}

struct LegendItem {
  double x, y;
  std::string name;
  std::string classes;
};

// Places the names in rows above the plot. A single series needs no legend, because the title names it.
std::vector<LegendItem> place_legend(const Chart& chart, double top, double width, double left) {
  std::vector<LegendItem> items;
  if (chart.series.size() < 2) return items;
  double x = left, y = top;
  for (const ChartSeries& series : chart.series) {
    if (series.name.empty()) continue;
    const double needed = kLegendSwatch + 6 + text_width(series.name, kTextHeight);
    if (x > left && x + needed > width - 8) {
      x = left;
      y += kLineHeight;
    }
    items.push_back({x, y, series.name, series_classes(series)});
    x += needed + kLegendGap;
  }
  return items;
}

std::string draw_legend(const std::vector<LegendItem>& items) {
  std::string out;
  for (const LegendItem& item : items) {
    const double middle = item.y - 4.5;
    out += line_element(item.x, middle, item.x + kLegendSwatch, middle, item.classes);
    if (item.classes.starts_with("gc-marked")) {
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" class=\"gc-dot{}\"/>\n",
                         item.x + kLegendSwatch / 2, middle, item.classes.substr(item.classes.find(' ')));
    }
    out += text_element(item.x + kLegendSwatch + 6, item.y, "gc-text", item.name);
  }
  return out;
}

std::string draw_axes(const Chart& chart, const Plot& plot, const Axis& x, const Axis& y,
                      const std::vector<Tick>& y_ticks) {
  std::string out;
  for (const Tick& tick : y_ticks) {
    const double at = y.pixel(tick.value);
    out += line_element(plot.left, at, plot.right, at, "gc-grid");
    out += text_element(plot.left - 8, at + 4.5, "gc-tick gc-right", tick.label);
  }
  out += line_element(plot.left, plot.bottom, plot.right, plot.bottom, "gc-axis");
  const int target = std::clamp(static_cast<int>(plot.width() / 80), 2, 10);
  const auto ticks = chart.log_x ? log_ticks(x.low, x.high, target)
                                 : linear_ticks(x.low, x.high, target, all_integers(chart));
  for (const Tick& tick : ticks) {
    const double at = x.pixel(tick.value);
    out += line_element(at, plot.bottom, at, plot.bottom + 4, "gc-axis");
    out += text_element(at, plot.bottom + 19, "gc-tick gc-middle", tick.label);
  }
  out += text_element(plot.right, plot.bottom + 38, "gc-text gc-right", chart.x_label);
  return out;
}

std::vector<Tick> y_ticks_of(const Range& range, double height, bool log) {
  const int target = std::clamp(static_cast<int>(height / 34), 3, 9);
  return log ? log_ticks(range.low, range.high, target) : linear_ticks(range.low, range.high, target, false);
}

double widest(const std::vector<Tick>& ticks) {
  double width = 0;
  for (const Tick& tick : ticks)
    width = std::max(width, text_width(tick.label, kTextHeight));
  return width;
}

// Returns the space for the last values and for half of the last label of the x axis.
double right_margin(const Chart& chart) {
  double margin = 18;
  for (const double value : last_values(chart))
    margin = std::max(margin, 12 + 1.15 * text_width(value_label(value), kTextHeight));
  return margin;
}

std::string colour_rules(const std::array<const char*, kColours>& colours) {
  std::string css;
  for (size_t i = 0; i < colours.size(); ++i) {
    css += fmt::format(".gc path.gc-c{}{{stroke:{}}}.gc circle.gc-c{}{{fill:{}}}\n", i, colours[i], i,
                       colours[i]);
  }
  return css;
}

std::string theme_rules(const char* surface, const char* ink, const char* muted, const char* grid,
                        const char* axis) {
  return fmt::format(
      ".gc-bg{{fill:{0}}}.gc-dot{{stroke:{0}}}.gc-reflabel{{stroke:{0}}}\n"
      ".gc-title,.gc-end{{fill:{1}}}.gc-text,.gc-tick,.gc-reflabel{{fill:{2}}}\n"
      ".gc path.gc-grid{{stroke:{3}}}.gc path.gc-axis{{stroke:{4}}}.gc path.gc-ref{{stroke:{2}}}\n",
      surface, ink, muted, grid, axis);
}

constexpr double kEdge = 14;
constexpr int kWidth = 860, kHeight = 480;

std::string placed(double x, double y, double scale, const char* classes, const std::string& svg) {
  return fmt::format("<g transform=\"translate({:.0f} {:.0f}) scale({:.0f})\" class=\"{}\">\n{}</g>\n", x, y,
                     scale, classes, svg);
}

}  // namespace

std::string svg_document(const std::string& title, double width, double height, const std::string& css,
                         const std::string& body) {
  const std::string own_style =
      css.empty() ? ""
                  : "<style>" + css + "</style>\n<rect width=\"100%\" height=\"100%\" class=\"gc-bg\"/>\n";
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"gc\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n{3}{4}</svg>\n",
      width, height, escape_markup(title), own_style, body);
}

std::string chart_css() {
  return ".gc{font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:13px}\n"
         ".gc path{fill:none;stroke-width:1;stroke-linecap:round;stroke-linejoin:round}\n"
         ".gc path.gc-raw{stroke-opacity:.32}.gc path.gc-line{stroke-width:2}.gc "
         "path.gc-marked{stroke-width:2.5}\n"
         ".gc path.gc-ref{stroke-dasharray:5 4;stroke-opacity:.75}.gc-dot{stroke-width:1.5}\n"
         ".gc-title{font-size:16px;font-weight:600}.gc-end{font-weight:600}\n"
         ".gc-reflabel{text-anchor:end;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}\n"
         ".gc-right{text-anchor:end}.gc-middle{text-anchor:middle}.gc-tick{font-variant-numeric:tabular-nums}"
         "\n" +
         theme_rules("#fcfcfb", "#0b0b0b", "#52514e", "#e8e7e3", "#b5b4ae") + colour_rules(kLight) +
         "@media (prefers-color-scheme:dark){\n" +
         theme_rules("#1a1a19", "#ffffff", "#c3c2b7", "#2e2e2b", "#5c5b56") + colour_rules(kDark) +
         ".gc path.gc-raw{stroke-opacity:.5}}\n";
}

std::string line_chart_svg(const Chart& chart, const ChartSize& size) {
  const double edge = size.embedded ? 2 : 16;
  double top = size.embedded ? 4 : 12;
  if (!chart.title.empty()) top += kTitleHeight + 6;
  const double title_y = top - 6;
  const auto legend = place_legend(chart, top + 14, size.width - edge, edge);
  if (!legend.empty()) top = legend.back().y + 10;
  const double y_label_y = top + 14;
  top += chart.y_label.empty() ? 8 : 26;

  Plot plot{edge, size.width - edge - right_margin(chart), top,
            size.height - (chart.x_label.empty() ? 30.0 : 46.0)};
  plot.bottom = std::max(plot.bottom, plot.top + 40);
  const Range x_values = x_range(chart), y_values = y_range(chart, plot.height());
  const auto y_ticks = y_ticks_of(y_values, plot.height(), chart.log_y);
  plot.left += widest(y_ticks) + 10;
  const Axis x{x_values.low, x_values.high, plot.left, plot.right, chart.log_x};
  const Axis y{y_values.low, y_values.high, plot.bottom, plot.top, chart.log_y};

  const double height = std::max<double>(size.height, plot.bottom + 46);
  std::string out;
  if (!chart.title.empty()) out += text_element(edge, title_y, "gc-title", chart.title);
  out += draw_legend(legend);
  if (!chart.y_label.empty()) out += text_element(edge, y_label_y, "gc-text", chart.y_label);
  if (has_points(chart)) {
    out += draw_axes(chart, plot, x, y, y_ticks);
  } else {
    out += text_element((plot.left + plot.right) / 2, (plot.top + plot.bottom) / 2, "gc-text gc-middle",
                        "no data yet");
  }
  for (const ChartSeries& series : chart.series)
    out += draw_series(chart, series, x, y);
  out += draw_reference_lines(chart, plot, y) + draw_end_labels(chart, plot, y);
  return svg_document(chart.title, size.width, height, size.embedded ? "" : chart_css(), out);
}

std::string stacked_charts_svg(const std::string& title, const std::vector<Chart>& charts,
                               const ChartSize& panel) {
  ChartSize size = panel;
  size.embedded = true;
  const double step = size.height + kEdge;
  std::string body;
  for (size_t i = 0; i < charts.size(); ++i)
    body +=
        placed(kEdge, kEdge + static_cast<double>(i) * step, 1, "gc-panel", line_chart_svg(charts[i], size));
  return svg_document(title, size.width + 2 * kEdge, kEdge + static_cast<double>(charts.size()) * step,
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
  return svg_document(
      chart.title, kWidth, kHeight, css,
      placed(kEdge, kEdge, 1, "gc-desk", drawn(1)) + placed(kEdge, kEdge, 2, "gc-phone", drawn(2)));
}

}  // namespace gpt
