#include "report/run_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpt {
namespace {

constexpr size_t kFewPoints = 30;  // up to here a smoothed line says nothing new

// `raw` as one line when it is short, else pale with its average on top.
std::vector<ChartSeries> with_average(ChartSeries raw, const std::string& average_name) {
  if (raw.x.size() <= kFewPoints) {
    raw.style = SeriesStyle::line;
    return {std::move(raw)};
  }
  ChartSeries average = raw;
  const double window = smoothing_window(raw.x.back() - raw.x.front());
  average.name = fmt::format("{} over {:.0f} steps", average_name, std::max(1.0, window));
  average.style = SeriesStyle::line;
  average.y = smoothed(raw.x, raw.y, window);
  return {std::move(raw), std::move(average)};
}

Chart rate_chart(std::string title, std::vector<ChartSeries> series, bool log_y) {
  Chart chart;
  chart.title = std::move(title);
  chart.x_label = "step";
  chart.series = std::move(series);
  chart.log_y = log_y;
  return chart;
}

}  // namespace

ChartSeries metric_series(std::span<const MetricRecord> records, std::string_view key, std::string name,
                          SeriesStyle style, int colour) {
  ChartSeries series{std::move(name), {}, {}, style, colour};
  for (const MetricRecord& record : records) {
    const auto step = metric_number(record, kStepKey), value = metric_number(record, key);
    if (!step || !std::isfinite(*step) || !value) continue;
    series.x.push_back(*step);
    series.y.push_back(*value);
  }
  return series;
}

Chart loss_chart(std::span<const MetricRecord> records, std::vector<ReferenceLine> reference_lines) {
  Chart chart;
  chart.title = "Loss";
  chart.x_label = "step";
  chart.y_label = "nats per token";
  chart.reference_lines = std::move(reference_lines);
  chart.series =
      with_average(metric_series(records, kLossKey, "training", SeriesStyle::raw, 0), "training, smoothed");
  if (chart.series.front().x.empty()) chart.series.clear();
  ChartSeries validation = metric_series(records, kValLossKey, "validation", SeriesStyle::marked, 1);
  if (!validation.x.empty()) chart.series.push_back(std::move(validation));
  ChartSeries evaluated =
      metric_series(records, kTrainLossKey, "training, evaluated", SeriesStyle::marked, 2);
  if (!evaluated.x.empty()) chart.series.push_back(std::move(evaluated));
  return chart;
}

std::vector<Chart> rate_charts(std::span<const MetricRecord> records) {
  std::vector<Chart> charts;
  const auto add = [&](std::string_view key, const char* title, int colour, bool average, bool log_y) {
    ChartSeries series = metric_series(records, key, average ? "each step" : title,
                                       average ? SeriesStyle::raw : SeriesStyle::line, colour);
    if (series.x.empty()) return;
    std::vector<ChartSeries> all;
    if (average) {
      all = with_average(std::move(series), "smoothed");
    } else {
      all.push_back(std::move(series));
    }
    charts.push_back(rate_chart(title, std::move(all), log_y));
  };
  add(kLrKey, "Learning rate", 2, false, false);
  add(kGradNormKey, "Gradient norm", 3, true, true);
  add(kSpeedKey, "Tokens per second", 0, true, false);
  return charts;
}

}  // namespace gpt
