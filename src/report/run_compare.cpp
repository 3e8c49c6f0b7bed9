#include "report/run_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "report/run_charts.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 24;

// Reads config.json with all values as text. Skips values nested deeper than a list, because no config key
// has such values.
std::map<std::string, std::string> read_config(const std::string& path) {
  if (!fs::exists(path)) return {};
  const auto keep = [](int depth, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    return !opens || depth <= 1;
  };
  const Json object = Json::parse(read_file(path, kMaxConfigBytes), keep, /*allow_exceptions=*/false);
  if (!object.is_object())
    fail("{}: expected a JSON object of config keys; use the folder of a training run", path);
  std::map<std::string, std::string> config;
  for (const auto& [key, value] : object.items()) {
    // Twelve digits give 3e-05 instead of 2.9999999999999997e-05.
    config[key] = value.is_string()         ? value.get<std::string>()
                  : value.is_number_float() ? fmt::format("{:.12g}", value.get<double>())
                                            : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return config;
}

std::string last_part(const std::string& path) {
  const fs::path clean = fs::path(path).lexically_normal();
  const std::string name = clean.filename().empty() || clean.filename() == "."
                               ? clean.parent_path().filename().string()
                               : clean.filename().string();
  return name.empty() || name == ".." ? path : name;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string whole(double value) {
  return std::abs(value) < 1e15 ? format_thousands(static_cast<int64_t>(value)) : "?";
}

std::string cell(const std::optional<double>& value, int digits) {
  return value ? fixed(*value, digits) : "";
}

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

const std::string& value_of(const FinishedRun& run, const std::string& key) {
  static const std::string none;
  const auto found = run.config.find(key);
  return found == run.config.end() ? none : found->second;
}

}  // namespace

std::vector<FinishedRun> read_runs(const std::vector<std::string>& paths) {
  std::vector<FinishedRun> runs;
  std::map<std::string, int> names;
  for (const std::string& path : paths) {
    const std::string metrics = path + "/metrics.jsonl";
    if (!fs::exists(metrics))
      fail("{}: expected a run folder with metrics.jsonl, found none; use the output folder of gpt train",
           path);
    runs.push_back({path, last_part(path), read_metrics(metrics), read_config(path + "/config.json")});
    ++names[runs.back().name];
  }
  for (FinishedRun& run : runs) {
    if (names[run.name] > 1) run.name = run.path;
  }
  return runs;
}

RunSummary summarize(const FinishedRun& run) {
  RunSummary out;
  std::vector<double> speeds;
  for (const MetricRecord& record : run.records) {
    const double step = metric_number(record, kStepKey).value_or(0);
    out.steps = std::max(out.steps, step);
    out.tokens = metric_number(record, "tokens").value_or(out.tokens);
    out.seconds = metric_number(record, "seconds").value_or(out.seconds);
    if (const auto loss = metric_number(record, kLossKey)) out.loss = loss;
    if (const auto speed = metric_number(record, kSpeedKey); speed && std::isfinite(*speed))
      speeds.push_back(*speed);
    const auto val = metric_number(record, kValLossKey);
    if (!val) continue;
    out.val_loss = val;
    if (std::isfinite(*val) && (!out.best_val_loss || *val < *out.best_val_loss)) {
      out.best_val_loss = val;
      out.best_step = step;
    }
  }
  out.tokens_per_s = median(std::move(speeds));
  return out;
}

TextTable summary_table(const std::vector<FinishedRun>& runs) {
  TextTable table{
      {"run", "steps", "tokens", "training loss", "validation loss", "best", "at step", "tokens/s", "time"},
      {}};
  for (const FinishedRun& run : runs) {
    const RunSummary s = summarize(run);
    table.rows.push_back({run.name, whole(s.steps), format_count(s.tokens), cell(s.loss, 4),
                          cell(s.val_loss, 4), cell(s.best_val_loss, 4),
                          s.best_step ? whole(*s.best_step) : "",
                          s.tokens_per_s ? whole(*s.tokens_per_s) : "", format_duration(s.seconds)});
  }
  return table;
}

TextTable difference_table(const std::vector<FinishedRun>& runs) {
  TextTable table{{"key"}};
  std::set<std::string> keys;
  for (const FinishedRun& run : runs) {
    table.columns.push_back(run.name);
    for (const auto& [key, value] : run.config)
      keys.insert(key);
  }
  for (const std::string& key : keys) {
    std::vector<std::string> row = {key};
    for (const FinishedRun& run : runs)
      row.push_back(value_of(run, key));
    if (std::any_of(row.begin() + 2, row.end(), [&](const std::string& v) { return v != row[1]; }))
      table.rows.push_back(std::move(row));
  }
  return table;
}

std::string compare_json(const std::vector<FinishedRun>& runs) {
  Json list = Json::array(), differences = Json::object();
  for (const FinishedRun& run : runs) {
    const RunSummary s = summarize(run);
    list.push_back({{"name", run.name},
                    {"path", run.path},
                    {"steps", number(s.steps)},
                    {"tokens", number(s.tokens)},
                    {"seconds", number(s.seconds)},
                    {"loss", number(s.loss)},
                    {"val_loss", number(s.val_loss)},
                    {"best_val_loss", number(s.best_val_loss)},
                    {"best_step", number(s.best_step)},
                    {"tok_per_s", number(s.tokens_per_s)}});
  }
  for (const auto& row : difference_table(runs).rows)
    differences[row[0]] = std::vector<std::string>(row.begin() + 1, row.end());
  const Json out = {{"runs", std::move(list)}, {"differences", std::move(differences)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

RunReport compare_report(const std::vector<FinishedRun>& runs) {
  RunReport report;
  report.title =
      runs.size() == 1 ? "Training run " + runs[0].name : fmt::format("{} training runs", runs.size());
  CurvePage page;
  Chart chart{.title = "Loss", .x_label = "step", .y_label = "nats per token"};
  for (const FinishedRun& run : runs) {
    page.runs.push_back({run.name, run.records});
    ChartSeries series = metric_series(run.records, kLossKey, run.name, SeriesStyle::line,
                                       static_cast<int>(chart.series.size() % 6));
    if (!series.x.empty()) chart.series.push_back(std::move(series));
  }
  report.chart = std::move(chart);
  report.curves = curves_json(page);
  report.sections.push_back({.title = "Results", .tables = {{"", summary_table(runs)}}});
  if (runs.size() > 1) {
    const TextTable differences = difference_table(runs);
    ReportSection section{.title = "Differences", .text = "Config keys with different values in the runs."};
    if (differences.rows.empty()) section.text = "All runs have the same config.";
    if (!differences.rows.empty()) section.tables.push_back({"", differences});
    report.sections.push_back(std::move(section));
  }
  report.footer = "Made by gpt.cpp.";
  return report;
}

}  // namespace gpt
