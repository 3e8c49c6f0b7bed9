#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.h"
#include "report/metrics.h"

namespace gpt {

// Keys of metrics.jsonl for which there are charts. A record has the key "step" and any number of the other
// keys.
inline constexpr std::string_view kStepKey = "step", kLossKey = "loss", kValLossKey = "val_loss",
                                  kTrainLossKey = "train_loss", kLrKey = "lr", kGradNormKey = "grad_norm",
                                  kSpeedKey = "tok_per_s";

// Returns the values of a metric over the step, from all records that have a number for `key`.
ChartSeries metric_series(std::span<const MetricRecord> records, std::string_view key, std::string name,
                          SeriesStyle style, int colour);

// Returns a chart of the training loss (raw and smoothed) and the validation loss. If the run also measured
// the training loss on fixed batches, like the validation loss, the chart shows it too. `reference_lines` are
// lines such as the entropy floor.
Chart loss_chart(std::span<const MetricRecord> records, std::vector<ReferenceLine> reference_lines);

// Returns charts of the learning rate, the gradient norm (logarithmic) and the tokens per second. Leaves out
// charts without values.
std::vector<Chart> rate_charts(std::span<const MetricRecord> records);

// A curve that has few enough points to draw. A longer curve is divided into buckets of neighbouring points.
// Each bucket keeps its lowest and its highest point, in order, and the mean of its points, so no peak is
// lost.
struct ThinnedCurve {
  std::vector<double> x, y;
  std::vector<double> mean_x, mean_y;  // empty if all points were kept
};

// Reduces a curve to about max_points points, including the first and the last one. If the curve is reduced,
// non-finite values are skipped. Otherwise, they are kept. Requires max_points >= 4.
ThinnedCurve thinned(std::span<const double> x, std::span<const double> y, size_t max_points);

// A run on the page.
struct CurveRun {
  std::string name;  // name on the page; may have any bytes
  std::span<const MetricRecord> records;
};

struct CurvePage {
  std::vector<CurveRun> runs;
  std::vector<ReferenceLine> loss_lines;  // such as the entropy floor
  bool running = false;                   // the page reloads itself
  int64_t written = 0;                    // time of writing in seconds since 1970; used only if running
};

// Returns the data for the curves of the page as JSON. The data contains one curve over the steps for each
// numeric metric of each run. Each curve is reduced to kCurvePoints points. Non-finite values are null.
std::string curves_json(const CurvePage& page);

inline constexpr size_t kCurvePoints = 2000;
inline constexpr size_t kMaxCurves = 400;  // maximum per run; further curves are dropped

}  // namespace gpt
