#include "serve/models/run_watch.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/ranges.h"
#include "report/run_charts.h"

namespace gpt::serve {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostReport = uint64_t{64} << 20;  // in bytes
constexpr size_t kMostSamples = 10;
constexpr int64_t kPaceRecords = 32;  // number of records for estimating the speed of the run
// A run is silent after kQuiet seconds plus the time of kBeats records without a new record.
constexpr double kQuiet = 60, kBeats = 20;
constexpr double kReadShare = 50;  // at most 1/50 of the time is spent reading

// Returns the number of seconds since a file was written.
double age_of(const std::string& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  return error ? 0 : std::chrono::duration<double>(fs::file_time_type::clock::now() - time).count();
}

std::optional<double> newest(const std::vector<MetricRecord>& records, std::string_view key) {
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (const auto value = metric_number(*record, key)) return value;
  }
  return std::nullopt;
}

// The time per step and per record in seconds, averaged over the last records that contain a time.
struct Pace {
  double step = 0, record = 0;  // 0: unknown
};
Pace pace_of(const std::vector<MetricRecord>& records) {
  std::vector<std::pair<double, double>> times;  // (step, seconds), newest first
  for (auto r = records.rbegin(); r != records.rend() && std::ssize(times) < kPaceRecords; ++r) {
    const auto seconds = metric_number(*r, "seconds"), step = metric_number(*r, kStepKey);
    if (seconds && step) times.emplace_back(*step, *seconds);
  }
  if (times.size() < 2) return {};
  const double seconds = times.front().second - times.back().second;
  const double steps = times.front().first - times.back().first;
  if (!(seconds > 0 && steps > 0)) return {};
  return {seconds / steps, seconds / static_cast<double>(times.size() - 1)};
}

int64_t steps_of(const std::string& folder) {
  try {
    return read_json_file(folder + "/config.json").value("steps", int64_t{0});
  } catch (const std::exception&) {  // the page then shows no estimated end of the run
    return 0;
  }
}

std::vector<RunResponse::Sample> samples_of(const std::vector<MetricRecord>& records) {
  std::vector<RunResponse::Sample> samples;
  for (auto record = records.rbegin(); record != records.rend() && samples.size() < kMostSamples; ++record) {
    const auto* text = find_by(*record, &MetricRecord::value_type::first, std::string_view("sample"));
    if (text == nullptr || !std::holds_alternative<std::string>(text->second)) continue;
    samples.push_back({metric_number(*record, kStepKey), std::get<std::string>(text->second)});
  }
  return samples;
}

}  // namespace

bool is_run(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::path(path) / "metrics.jsonl", error);
}

std::string file_version(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  const auto time = fs::last_write_time(path, error);
  return error ? "" : fmt::format("{}-{}", size, time.time_since_epoch().count());
}

void RunWatch::refresh() {
  const std::string path = run_.folder + "/metrics.jsonl", version = file_version(path);
  if (version == version_ || seconds_since(read_at_) < kReadShare * read_took_) return;
  const auto begin = Clock::now();
  records_ = is_run(run_.folder)
                 ? read_metrics(path)
                 : std::vector<MetricRecord>();  // the file does not exist before the first step
  steps_ = steps_of(run_.folder);
  version_ = version;
  read_at_ = Clock::now();
  read_took_ = seconds_since(begin);
}

RunResponse RunWatch::facts() const {
  const double step = newest(records_, kStepKey).value_or(0);
  const Pace pace = pace_of(records_);
  const bool finished = steps_ > 0 && step >= static_cast<double>(steps_);
  const bool silent = age_of(run_.folder + "/metrics.jsonl") > kQuiet + kBeats * pace.record;
  RunResponse facts{.name = run_.name,
                    .version = version_,
                    .report_version = file_version(run_.folder + "/report.html"),
                    .step = static_cast<int64_t>(step),
                    .loss = newest(records_, kLossKey),
                    .val_loss = newest(records_, kValLossKey),
                    .tok_per_s = newest(records_, kSpeedKey),
                    .seconds = newest(records_, "seconds"),
                    .state = finished ? "finished"
                             : silent ? "silent"
                                      : "running"};
  if (steps_ > 0) facts.steps = steps_;
  if (steps_ > 0 && pace.step > 0 && !finished)
    facts.eta_seconds = (static_cast<double>(steps_) - step) * pace.step;
  return facts;
}

RunResponse RunWatch::summary() {
  refresh();
  return facts();
}

RunResponse RunWatch::details() {
  RunResponse run = summary();
  run.curves = JsonText{curves_json({.runs = {{run_.name, records_}}, .loss_lines = {}})};
  run.samples = samples_of(records_);
  return run;
}

std::string RunWatch::report() const {
  const std::string path = run_.folder + "/report.html";
  if (!fs::exists(path)) fail("the run {} has no report yet; try again later", run_.name);
  return read_file(path, kMostReport);
}

std::list<RunWatch>& RunList::now() {
  std::vector<WatchedRun> wanted = always_;
  for (const auto& model : models_.all()) {
    if (is_run(model->options().path)) wanted.push_back({model->name(), model->options().path});
  }
  std::list<RunWatch> there;
  for (const WatchedRun& run : wanted) {
    const auto known = std::ranges::find(runs_, run, &RunWatch::run);
    if (known == runs_.end())
      there.emplace_back(run);
    else
      there.splice(there.end(), runs_, known);
  }
  runs_ = std::move(there);
  return runs_;
}

RunWatch* RunList::find(std::string_view name) {
  return find_by(now(), &RunWatch::name, name);
}

}  // namespace gpt::serve
