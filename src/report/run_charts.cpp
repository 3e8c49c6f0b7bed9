#include "report/run_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/ranges.h"
#include "report/utf8_text.h"

namespace gpt {
namespace {

constexpr size_t kFewPoints = 30;  // with fewer points, a smoothed line shows nothing new

// Returns a short series as one line, and a long series as a pale line with its average on top.
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

using Json = nlohmann::ordered_json;

void add_bucket(ThinnedCurve& out, std::span<const double> x, std::span<const double> y) {
  size_t low = x.size(), high = x.size(), n = 0;
  double sum_x = 0, sum_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(y[i]) || !std::isfinite(x[i])) continue;
    if (low == x.size() || y[i] < y[low]) low = i;
    if (high == x.size() || y[i] > y[high]) high = i;
    sum_x += x[i];
    sum_y += y[i];
    ++n;
  }
  if (n == 0) return;
  for (const size_t i : {std::min(low, high), std::max(low, high)}) {
    if (!out.x.empty() && out.x.back() == x[i]) continue;
    out.x.push_back(x[i]);
    out.y.push_back(y[i]);
  }
  out.mean_x.push_back(sum_x / static_cast<double>(n));
  out.mean_y.push_back(sum_y / static_cast<double>(n));
}

// Rounds to six significant digits, which is more than a chart can show.
Json numbers(const std::vector<double>& values) {
  return transformed(values, [](double v) -> Json {
    if (!std::isfinite(v)) return nullptr;
    if (v == std::floor(v) && std::abs(v) < 1e15) return static_cast<int64_t>(v);
    const double scale = std::pow(10.0, 5 - std::floor(std::log10(std::abs(v))));
    return std::isfinite(scale) && scale > 0 ? std::round(v * scale) / scale : v;
  });
}

Json curve_json(const ChartSeries& points) {
  const ThinnedCurve curve = thinned(points.x, points.y, kCurvePoints);
  Json out = {{"x", numbers(curve.x)}, {"y", numbers(curve.y)}};
  if (!curve.mean_x.empty()) {
    out["mx"] = numbers(curve.mean_x);
    out["my"] = numbers(curve.mean_y);
  }
  return out;
}

Json run_json(const CurveRun& run) {
  std::vector<std::string> order;
  std::map<std::string, ChartSeries> curves;
  for (const MetricRecord& record : run.records) {
    const auto step = metric_number(record, kStepKey);
    if (!step || !std::isfinite(*step)) continue;
    for (const auto& [key, value] : record) {
      const auto y = key == kStepKey ? std::nullopt : metric_number({{key, value}}, key);
      if (!y) continue;
      if (!curves.contains(key)) {
        if (order.size() == kMaxCurves) continue;
        order.push_back(key);
      }
      curves[key].add(*step, *y);
    }
  }
  Json all = Json::object();
  for (const std::string& key : order)
    all[visible_text(key)] = curve_json(curves[key]);
  return {{"name", visible_text(run.name)}, {"curves", std::move(all)}};
}

}  // namespace

ChartSeries metric_series(std::span<const MetricRecord> records, std::string_view key, std::string name,
                          SeriesStyle style, int colour) {
  ChartSeries series{std::move(name), {}, {}, style, colour};
  for (const MetricRecord& record : records) {
    const auto step = metric_number(record, kStepKey), value = metric_number(record, key);
    if (step && std::isfinite(*step) && value) series.add(*step, *value);
  }
  return series;
}

Chart loss_chart(std::span<const MetricRecord> records, std::vector<ReferenceLine> reference_lines) {
  Chart chart{.title = "Loss", .x_label = "step", .y_label = "nats per token"};
  chart.reference_lines = std::move(reference_lines);
  chart.series =
      with_average(metric_series(records, kLossKey, "training", SeriesStyle::raw, 0), "training, smoothed");
  chart.series.push_back(metric_series(records, kValLossKey, "validation", SeriesStyle::marked, 1));
  chart.series.push_back(
      metric_series(records, kTrainLossKey, "training (evaluated)", SeriesStyle::marked, 2));
  std::erase_if(chart.series, [](const ChartSeries& series) { return series.x.empty(); });
  return chart;
}

std::vector<Chart> rate_charts(std::span<const MetricRecord> records) {
  std::vector<Chart> charts;
  const auto add = [&](std::string_view key, const char* title, int colour, bool average, bool log_y) {
    ChartSeries series = metric_series(records, key, average ? "each step" : title,
                                       average ? SeriesStyle::raw : SeriesStyle::line, colour);
    if (series.x.empty()) return;
    charts.push_back({.title = title,
                      .x_label = "step",
                      .series = average ? with_average(series, "smoothed") : std::vector{series},
                      .log_y = log_y});
  };
  add(kLrKey, "Learning rate", 2, false, false);
  add(kGradNormKey, "Gradient norm", 3, true, true);
  add(kSpeedKey, "Tokens per second", 0, true, false);
  return charts;
}

ThinnedCurve thinned(std::span<const double> x, std::span<const double> y, size_t max_points) {
  ThinnedCurve out;
  const size_t n = x.size();
  if (n <= max_points) {
    out.x.assign(x.begin(), x.end());
    out.y.assign(y.begin(), y.end());
    return out;
  }
  const size_t buckets = max_points / 2 - 1;
  add_bucket(out, x.first(1), y.first(1));
  for (size_t b = 0; b < buckets; ++b) {
    const size_t begin = 1 + (n - 2) * b / buckets, end = 1 + (n - 2) * (b + 1) / buckets;
    add_bucket(out, x.subspan(begin, end - begin), y.subspan(begin, end - begin));
  }
  add_bucket(out, x.last(1), y.last(1));
  return out;
}

std::string curves_json(const CurvePage& page) {
  const auto lines = transformed(page.loss_lines, [](const ReferenceLine& line) {
    return Json{{"y", line.y}, {"label", visible_text(line.label)}};
  });
  const Json out = {{"running", page.running},
                    {"written", page.running ? page.written : 0},
                    {"lines", lines},
                    {"runs", transformed(page.runs, run_json)}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpt
