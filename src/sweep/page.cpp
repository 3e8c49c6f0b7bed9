#include "sweep/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/format.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "report/report_html.h"

namespace gpt {
namespace {

std::vector<ReferenceLine> floor_line(const Sweep& sweep) {
  if (!sweep.floor) return {};
  return {{*sweep.floor, "entropy floor " + format_loss(*sweep.floor)}};
}

std::set<double> budgets_of(const Sweep& sweep) {
  std::set<double> budgets;
  for (const SweepRun& run : sweep.runs)
    budgets.insert(run.budget);
  return budgets;
}

// Returns the losses of the fitted law for one budget at the measured sizes. Only the series of the first
// budget has a legend entry.
ChartSeries law_series(const Sweep& sweep, const LossFit& fit, double budget, int colour) {
  ChartSeries series{
      budget == *budgets_of(sweep).begin() ? "fitted law" : "", {}, {}, SeriesStyle::raw, colour};
  std::vector<std::pair<double, double>> places;
  for (const SweepRun& run : sweep.runs) {
    if (run.budget == budget) places.push_back({run.parameters, run.tokens});
  }
  std::ranges::sort(places);
  for (const auto& [parameters, tokens] : places)
    series.add(parameters, fit.law.loss(parameters, tokens));
  return series;
}

std::string series_name(const SweepRun& run, size_t budgets) {
  if (budgets > 1) return format_count(run.budget) + " FLOPs";
  const auto depth = run.point.find("n_layer");
  if (depth != run.point.end()) return depth->second + (depth->second == "1" ? " layer" : " layers");
  return run.budget > 0 ? format_count(run.budget) + " FLOPs" : "equal steps";
}

// Returns the number if the whole text is a positive number, otherwise nothing.
std::optional<double> number_of(const std::string& text) {
  const auto value = parse_number<double>(text);
  return value && *value > 0 ? value : std::nullopt;
}

// Returns the swept key to use as the x axis if all models have about the same size and differ in a single
// numeric key. Otherwise returns nothing, and the x axis shows the number of parameters.
std::optional<std::string> key_at_equal_size(const Sweep& sweep) {
  const auto [low, high] = std::ranges::minmax(transformed(sweep.runs, &SweepRun::parameters));
  std::map<std::string, std::set<std::string>> keys = swept_keys(sweep);
  keys.erase("lr");
  const bool equal = high < 1.5 * low;
  if (!equal || keys.size() != 1 || keys.begin()->second.size() < 2) return {};
  const auto& [key, values] = *keys.begin();
  const bool numbers =
      std::ranges::all_of(values, [](const auto& value) { return number_of(value).has_value(); });
  return numbers ? std::optional(key) : std::nullopt;
}

}  // namespace

Chart size_chart(const Sweep& sweep, const Findings& findings) {
  const std::optional<std::string> key = key_at_equal_size(sweep);
  const std::string x_label = key.value_or("parameters");
  Chart chart{.title = "Loss against " + x_label, .x_label = x_label, .y_label = "nats per token"};
  chart.log_x = true;
  chart.reference_lines = floor_line(sweep);
  const std::set<double> budgets = budgets_of(sweep);
  std::map<std::pair<double, std::string>, std::map<double, double>> lines;
  for (const SweepMean& mean : findings.means) {
    const SweepRun& run = sweep.runs[mean.run];
    const std::string name = key && budgets.size() == 1 ? "" : series_name(run, budgets.size());
    const double x = key ? *number_of(run.point.at(*key)) : run.parameters;
    // `emplace` keeps the first mean, which is the best, because the means are sorted.
    lines[{run.budget, name}].emplace(x, mean.loss);
  }
  int colour = 0;
  for (const auto& [place, points] : lines) {
    ChartSeries series{place.second, {}, {}, SeriesStyle::marked, colour++};
    for (const auto& [x, loss] : points)
      series.add(x, loss);
    chart.series.push_back(std::move(series));
  }
  if (!findings.fit || key) return chart;
  colour = 0;
  for (const double budget : budgets)
    chart.series.push_back(law_series(sweep, *findings.fit, budget, budgets.size() > 1 ? colour++ : 5));
  return chart;
}

Chart flops_chart(const Sweep& sweep) {
  Chart chart{.title = "Loss against training FLOPs", .x_label = "FLOPs", .y_label = "nats per token"};
  chart.log_x = true;
  chart.reference_lines = floor_line(sweep);
  std::vector<CurvePoint> all;
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    ChartSeries series{chart.series.empty() ? "each run" : "", {}, {}, SeriesStyle::raw, 0};
    for (const CurvePoint& point : sweep.results[i].curve) {
      series.add(point.flops, point.loss);
      all.push_back(point);
    }
    if (!series.x.empty()) chart.series.push_back(std::move(series));
  }
  std::ranges::sort(all, {}, &CurvePoint::flops);
  ChartSeries lowest{"lowest so far", {}, {}, SeriesStyle::line, 1};
  for (const CurvePoint& point : all) {
    if (lowest.y.empty() || !(point.loss >= lowest.y.back())) lowest.add(point.flops, point.loss);
  }
  if (lowest.x.size() > 1) chart.series.push_back(std::move(lowest));
  return chart;
}

TextTable result_table(const Sweep& sweep, const Findings& findings) {
  TextTable table{{"loss", "run", "shape", "parameters", "tokens", "FLOPs", "seeds"}};
  const bool many = budgets_of(sweep).size() > 1;
  for (const SweepMean& mean : findings.means) {
    const SweepRun& run = sweep.runs[mean.run];
    table.rows.push_back({format_loss(mean.loss), run_name(run.point, run.budget, 0, many, false),
                          shape_name(run), format_count(run.parameters), format_count(run.tokens),
                          format_count(run.flops), std::to_string(mean.seeds)});
  }
  for (size_t i = 0; i < sweep.runs.size(); ++i) {
    const SweepRun& run = sweep.runs[i];
    if (sweep.results[i].state != SweepResult::State::failed) continue;
    table.rows.push_back({"failed", run.name, shape_name(run), format_count(run.parameters),
                          format_count(run.tokens), format_count(run.flops), ""});
  }
  return table;
}

std::string sweep_page(const Sweep& sweep, const Findings& findings) {
  RunReport report;
  report.title = "Sweep";
  const auto done = std::ranges::count_if(
      sweep.results, [](const SweepResult& result) { return result.state == SweepResult::State::done; });
  report.subtitle = fmt::format("{} of {} runs done, {} of training", done, sweep.runs.size(),
                                format_duration(sum_of(sweep.results, &SweepResult::seconds)));
  if (!findings.means.empty()) {
    const SweepMean& best = findings.means.front();
    const SweepRun& run = sweep.runs[best.run];
    report.headlines.push_back(
        {"lowest loss", format_loss(best.loss), run_name(run.point, 0, 0, false, false)});
    report.headlines.push_back(
        {"parameters of the best run", format_count(run.parameters), "including embeddings"});
    report.headlines.push_back(
        {"tokens of the best run", format_count(run.tokens), format_count(run.flops) + " FLOPs"});
  }
  if (findings.noise)
    report.headlines.push_back(
        {"noise", fmt::format("{:.4f}", *findings.noise), "standard deviation of seeds"});
  report.chart = size_chart(sweep, findings);
  report.more_charts = {flops_chart(sweep)};
  report.commands = {{"This sweep", sweep.command_line}};
  ReportSection words{.title = "Findings"};
  const auto rows = transformed(findings.sentences, [](const std::string& s) { return std::vector{s}; });
  words.tables.push_back({"", TextTable{{"finding"}, rows}});
  report.sections.push_back(words);
  report.sections.push_back({.title = "Fitted law", .text = findings.fit_note});
  ReportSection results{.title = "Runs"};
  if (findings.flops_difference > 0)
    results.text = fmt::format(
        "The FLOPs of runs with the same budget differ by up to {}, because the number of steps is rounded.",
        format_percent(findings.flops_difference));
  results.tables.push_back({"", result_table(sweep, findings)});
  report.sections.push_back(results);
  report.footer = "Made by gpt.cpp.";
  return report_html(report);
}

}  // namespace gpt
