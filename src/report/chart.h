#pragma once

#include <span>
#include <string>
#include <vector>

namespace gpt {

enum class SeriesStyle {
  raw,     // thin and pale, for every measured value
  line,    // a plain line, for example for smoothed values
  marked,  // thick with dots, and the last value is written at the right edge
};

// A line of a chart. x must be ascending, and x and y must have the same length. Points with a non-finite x
// or y make a gap.
struct ChartSeries {
  std::string name;  // name in the legend; empty: not in the legend
  std::vector<double> x, y;
  SeriesStyle style = SeriesStyle::line;
  int colour = 0;  // index in the palette of six colours; related series share a colour

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
  bool log_y = false;  // if set, values that are not positive make gaps
  bool log_x = false;
};

// Returns a centered moving average, which does not lag behind the values. A value at distance d on the x
// axis has the weight exp(-d / window), divided by the sum of all weights. The smoothing therefore does not
// depend on the length of a run or its logging intervals. The average at a point only includes later values
// up to the distance of the first value. Without this limit, the line would begin far below the first values
// of a training loss, which fall steeply. Non-finite values are skipped, and the result is NaN there. x must
// be ascending.
std::vector<double> smoothed(std::span<const double> x, std::span<const double> y, double window);

// Returns the window for curves that cover `span` of the x axis. The longest curve determines the window of a
// chart.
double smoothing_window(double span);

// A position on an axis with its label.
struct Tick {
  double value;
  std::string label;
};

// Returns about `target` round positions (1, 2 or 5 times a power of ten) inside [low, high]. Requires low <
// high, both finite.
std::vector<Tick> linear_ticks(double low, double high, int target, bool integers);

// Returns tick positions for a logarithmic axis. The ticks are powers of ten. If the axis has few powers of
// ten, it also has ticks at 2 and 5 times a power of ten. If there are still too few ticks, the ticks are
// linear. Requires 0 < low < high.
std::vector<Tick> log_ticks(double low, double high, int target);

}  // namespace gpt
