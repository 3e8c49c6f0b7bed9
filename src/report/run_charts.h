#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.h"
#include "report/metrics.h"

namespace gpt {

// The keys of metrics.jsonl that charts are made of. A record has "step" and any of the others.
inline constexpr std::string_view kStepKey = "step", kLossKey = "loss", kValLossKey = "val_loss",
                                  kTrainLossKey = "train_loss", kLrKey = "lr", kGradNormKey = "grad_norm",
                                  kSpeedKey = "tok_per_s";

// All records with a number for `key`, over the step.
ChartSeries metric_series(std::span<const MetricRecord> records, std::string_view key, std::string name,
                          SeriesStyle style, int colour);

// Training loss, raw and smoothed, validation loss, and training loss on as many fixed batches where there is
// one, with lines such as the entropy floor.
Chart loss_chart(std::span<const MetricRecord> records, std::vector<ReferenceLine> reference_lines);

// Learning rate, gradient norm (logarithmic) and tokens per second; a chart without any value is left out.
std::vector<Chart> rate_charts(std::span<const MetricRecord> records);

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
