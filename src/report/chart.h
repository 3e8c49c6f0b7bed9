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

// A moving average that looks back and ahead alike, so that the line does not lag behind: value i +- k weighs
// (1 - 1/window)^k, divided by the sum of the weights. It looks ahead no further than back: the first values
// of a training loss fall steeply, and the line starts where they do. Non-finite values are skipped; the
// result has NaN there.
std::vector<double> smoothed(std::span<const double> values, double window);

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
