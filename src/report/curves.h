#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/chart.h"
#include "report/metrics.h"

namespace gpt {

// Points of a curve that are few enough to draw. Where there were more than fit, every bucket of neighbours
// keeps its lowest and its highest point, in order, and one point of the mean: no peak is lost.
struct ThinnedCurve {
  std::vector<double> x, y;
  std::vector<double> mean_x, mean_y;  // empty when all points are there
};

// At most about max_points points, the first and the last among them. Values that are not finite are kept
// when all points fit, and skipped otherwise; max_points >= 4.
ThinnedCurve thinned(std::span<const double> x, std::span<const double> y, size_t max_points);

// One run on the page.
struct CurveRun {
  std::string name;  // as shown; any bytes
  std::span<const MetricRecord> records;
};

struct CurvePage {
  std::vector<CurveRun> runs;
  std::vector<ReferenceLine> loss_lines;  // such as the entropy floor
  bool running = false;                   // the page loads itself again
  int64_t written = 0;                    // when, in seconds since 1970; used when running
};

// What the page draws, as JSON: all numeric metrics of all runs over the step, thinned to kCurvePoints points
// each. Numbers that are not finite are null.
std::string curves_json(const CurvePage& page);

inline constexpr size_t kCurvePoints = 2000;
inline constexpr size_t kMaxCurves = 400;  // of a run; the rest is left out

}  // namespace gpt
