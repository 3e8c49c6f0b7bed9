#pragma once

#include <span>
#include <string>
#include <vector>

namespace gpt {

enum class SeriesStyle {
  raw,     // thin and pale: every measured value
  line,    // a plain line, e.g. a smoothed one
  marked,  // thick with dots, its last value written at the right edge
};

// Points with a non-finite x or y make a gap. x ascending; x and y of equal length.
struct ChartSeries {
  std::string name;  // empty: not in the legend
  std::vector<double> x, y;
  SeriesStyle style = SeriesStyle::line;
  int colour = 0;  // which of the palette's six colours; series that belong together share one

  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

struct ReferenceLine {
  double y = 0;
  std::string label;
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  std::vector<ReferenceLine> reference_lines;
  bool log_y = false;  // values that are not positive make gaps then
  bool log_x = false;
};

// A moving average that looks back and ahead alike, so that the line does not lag behind: a value at distance
// d on the x axis weighs exp(-d / window), divided by the sum of the weights; so runs of any length, and
// logged at any rhythm, are smoothed alike. It looks ahead no further than back: the first values of a
// training loss fall steeply, and the line starts where they do. Non-finite values are skipped; the result
// has NaN there. x ascends.
std::vector<double> smoothed(std::span<const double> x, std::span<const double> y, double window);

// The window for curves that span so much of the x axis; the longest one decides for all in a chart.
double smoothing_window(double span);

// Axis positions and their labels.
struct Tick {
  double value;
  std::string label;
};

// About `target` round positions (1, 2, 5 times a power of ten) inside [low, high]; low < high, both finite.
std::vector<Tick> linear_ticks(double low, double high, int target, bool integers);

// The same for a logarithmic axis; 0 < low < high: decades, or 1-2-5, or linear steps where those are too
// few.
std::vector<Tick> log_ticks(double low, double high, int target);

}  // namespace gpt
