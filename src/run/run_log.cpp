#include "run/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/clock.h"
#include "base/file.h"
#include "base/format.h"
#include "base/ranges.h"
#include "report/run_charts.h"
#include "report/svg.h"

namespace gpt {
namespace {

constexpr std::string_view kSampleKey = "sample";
constexpr const char *kWholeLossKey = "whole_val_loss", *kWholeBestKey = "whole_val_loss_best",
                     *kWholeTokensKey = "whole_val_tokens", *kHeldOutTokensKey = "val_tokens";
// During a run, the pause between two reports is at least kReportPause seconds. It is also at least
// kReportShare times as long as the time to write a report.
constexpr double kReportPause = 10;
constexpr double kReportShare = 250;

std::vector<MetricRecord> earlier_records(const std::string& folder, std::optional<int64_t> resume_step) {
  const std::string path = folder + "/metrics.jsonl";
  if (!resume_step || !std::filesystem::exists(path)) return {};
  std::vector<MetricRecord> records = read_metrics(path);
  std::erase_if(records, [&](const MetricRecord& record) {
    return !(metric_number(record, kStepKey).value_or(0) <= static_cast<double>(*resume_step));
  });
  return records;
}

const std::string* text_of(const MetricRecord& record, std::string_view key) {
  const auto* found = find_by(record, &MetricRecord::value_type::first, key);
  return found == nullptr ? nullptr : std::get_if<std::string>(&found->second);
}

}  // namespace

RunLog::RunLog(const std::string& folder, std::optional<int64_t> resume_step, const TrainConfig& config,
               RunFacts facts, const ProgressOutput& output)
    : folder_(folder),
      facts_(std::move(facts)),
      steps_(config.steps),
      records_(earlier_records(folder, resume_step)),
      outputs_(
          new Outputs{.metrics = MetricsLog(folder, resume_step),
                      .tensorboard = TensorBoardWriter(folder, resume_step),
                      .line = ProgressLine(output, {.log_every = std::max<int64_t>(1, config.log_every)})}) {}

void RunLog::progress(const Progress& progress) {
  if (outputs_) outputs_->line.update(progress);
}

void RunLog::message(const std::string& text) {
  if (outputs_ && !text.empty()) outputs_->line.message(facts_.shown ? facts_.shown(text) : text);
}

void RunLog::model_text(const std::string& text) {
  if (outputs_) outputs_->line.model_text(text);
}

void RunLog::finish() {
  if (outputs_) outputs_->line.finish();
}

void RunLog::sync() {
  if (outputs_) outputs_->metrics.sync();
}

void RunLog::append(MetricRecord record) {
  if (outputs_) outputs_->metrics.append(record);
  records_.push_back(std::move(record));
}

void RunLog::step(const StepMetrics& m) {
  MetricRecord record = {{"step", m.step},      {"tokens", m.tokens},       {"loss", m.loss},
                         {"lr", m.lr},          {"grad_norm", m.grad_norm}, {"tok_per_s", m.tokens_per_s},
                         {"seconds", m.seconds}};
  std::vector<Scalar> scalars = {
      {"loss/train", m.loss}, {"lr", m.lr}, {"grad_norm", m.grad_norm}, {"tok_per_s", m.tokens_per_s}};
  if (m.skipped > 0) record.emplace_back("skipped", m.skipped);
  if (m.loss_scale) {
    record.emplace_back("loss_scale", *m.loss_scale);
    scalars.push_back({"loss_scale", *m.loss_scale});
  }
  append(std::move(record));
  metrics(m.step, m.more);
  if (outputs_) outputs_->tensorboard.add(m.step, scalars);
  if (m.seconds >= next_report_s_ && m.step < steps_) write_report(m.seconds, true);
}

void RunLog::metrics(int64_t step, const NamedValues& values) {
  if (values.empty()) return;
  MetricRecord record = {{"step", step}};
  record.insert(record.end(), values.begin(), values.end());
  append(std::move(record));
}

void RunLog::evaluation(int64_t step, const EvalLosses& losses) {
  MetricRecord record = {{"step", step}, {"val_loss", losses.val}};
  if (facts_.nats) {
    record.emplace_back("val_perplexity", std::exp(losses.val));
    record.emplace_back("val_bits_per_byte", losses.val / std::log(2.0) / facts_.bytes_per_token);
  }
  std::vector<Scalar> scalars = {{"loss/val", losses.val}};
  if (losses.train) {
    record.emplace_back(kTrainLossKey, *losses.train);
    scalars.push_back({"loss/train_eval", *losses.train});
  }
  append(std::move(record));
  if (outputs_) outputs_->tensorboard.add(step, scalars);
}

void RunLog::whole_evaluation(int64_t step, const WholeLosses& losses) {
  MetricRecord record = {{"step", step},
                         {kWholeLossKey, losses.last},
                         {kWholeTokensKey, losses.tokens},
                         {kHeldOutTokensKey, losses.all}};
  if (losses.best) record.emplace_back(kWholeBestKey, *losses.best);
  append(std::move(record));
}

std::optional<WholeLosses> RunLog::whole_losses(int64_t step) const {
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    const auto number = [&](std::string_view key) { return metric_number(*record, key); };
    if (!number(kWholeLossKey) || number(kStepKey) != static_cast<double>(step)) continue;
    return WholeLosses{.tokens = static_cast<int64_t>(number(kWholeTokensKey).value_or(0)),
                       .all = static_cast<int64_t>(number(kHeldOutTokensKey).value_or(0)),
                       .last = *number(kWholeLossKey),
                       .best = number(kWholeBestKey)};
  }
  return std::nullopt;
}

void RunLog::sample(int64_t step, const std::string& text) {
  append({{"step", step}, {std::string(kSampleKey), text}});
}

std::optional<double> RunLog::first_loss() const {
  for (const MetricRecord& record : records_) {
    if (metric_number(record, kStepKey) == 1 && metric_number(record, kLossKey))
      return metric_number(record, kLossKey);
  }
  return std::nullopt;
}

std::string RunLog::divergence_note(const TrainConfig& config) const {
  // If the mean loss at the end is more than 1 nat above the first loss, the run has diverged.
  constexpr double kRise = 1;
  const std::vector<double> losses = values(kLossKey);
  if (losses.size() < 2) return "";
  const auto last = static_cast<std::ptrdiff_t>(std::max<size_t>(1, losses.size() / 4));
  const double mean = std::accumulate(losses.end() - last, losses.end(), 0.0) / static_cast<double>(last);
  if (mean <= losses.front() + kRise) return "";
  const auto is_lowest = [lowest = *std::ranges::min_element(losses)](const MetricRecord& record) {
    return metric_number(record, kLossKey) == lowest;
  };
  const MetricRecord& best = *std::ranges::find_if(records_, is_lowest);
  return fmt::format(
      "note: the run diverged: lowest loss {:.4f} at step {}, last loss {:.4f}; try a lower `lr` (now "
      "{:g}){}\n",
      *metric_number(best, kLossKey), *metric_number(best, kStepKey), losses.back(), config.lr,
      config.clip_norm == 0 ? " or `clip_norm` 1" : "");
}

const MetricRecord* RunLog::newest_evaluation() const {
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    if (metric_number(*record, kValLossKey)) return &*record;
  }
  return nullptr;
}

std::vector<double> RunLog::values(std::string_view key) const {
  std::vector<double> values;
  for (const MetricRecord& record : records_) {
    if (const auto value = metric_number(record, key)) values.push_back(*value);
  }
  return values;
}

std::optional<double> RunLog::val_loss() const {
  const MetricRecord* record = newest_evaluation();
  return record == nullptr ? std::nullopt : metric_number(*record, kValLossKey);
}

std::optional<int64_t> RunLog::val_step() const {
  const MetricRecord* record = newest_evaluation();
  if (record == nullptr) return std::nullopt;
  return static_cast<int64_t>(metric_number(*record, kStepKey).value_or(-1));
}

namespace {

ReportHeadline whole_headline(const WholeLosses& w) {
  const std::string tokens =
      w.tokens == w.all
          ? fmt::format("all {} tokens", format_thousands(w.all))
          : fmt::format("the first {} of {} tokens", format_thousands(w.tokens), format_thousands(w.all));
  return {"held-out loss", format_loss(w.best.value_or(w.last)),
          w.best ? fmt::format("best/ on {}; last/ {}", tokens, format_loss(w.last))
                 : fmt::format("last/ on {}", tokens)};
}

}  // namespace

int64_t RunLog::steps_done() const {
  double step = 0;
  for (const MetricRecord& record : records_)
    step = std::max(step, metric_number(record, kStepKey).value_or(0));
  return static_cast<int64_t>(step);
}

std::vector<ReportHeadline> RunLog::headlines(double seconds) const {
  std::vector<ReportHeadline> out;
  double best = INFINITY, best_step = 0, last_loss = NAN, last_step = 0, tokens = 0;
  for (const MetricRecord& record : records_) {
    const double step = metric_number(record, kStepKey).value_or(0);
    if (const auto val = metric_number(record, kValLossKey); val && *val < best) {
      best = *val;
      best_step = step;
    }
    if (const auto loss = metric_number(record, kLossKey)) {
      last_loss = *loss;
      last_step = step;
    }
    tokens = metric_number(record, "tokens").value_or(tokens);
  }
  if (std::isfinite(best)) {
    out.push_back({"validation loss", format_loss(best),
                   fmt::format("best, at step {}", format_thousands(static_cast<int64_t>(best_step)))});
    if (const auto whole = whole_losses(steps_done())) out.push_back(whole_headline(*whole));
    if (facts_.nats) {
      out.push_back({"perplexity", format_perplexity(std::exp(best)), "exp(validation loss)"});
      out.push_back({"bits per byte", format_loss(best / std::log(2.0) / facts_.bytes_per_token),
                     "of validation text"});
    }
    if (facts_.floor) {
      out.push_back({"above the entropy floor", fmt::format("{:+.4f}", best - *facts_.floor),
                     fmt::format("entropy of the text: {:.4f} nats per token", *facts_.floor)});
    }
  }
  out.push_back({"training loss", format_loss(last_loss),
                 fmt::format("step {} of {}", format_thousands(static_cast<int64_t>(last_step)),
                             format_thousands(steps_))});
  out.push_back({"training time", format_duration(seconds), fmt::format("{} tokens", format_count(tokens))});
  return out;
}

void RunLog::write_report(double seconds, bool running) {
  if (!outputs_) return;
  const auto start = Clock::now();
  std::vector<ReferenceLine> lines;
  if (facts_.nats) {
    lines.push_back({std::log(static_cast<double>(facts_.vocab_size)),
                     fmt::format("ln {} (uniform guessing)", facts_.vocab_size)});
  }
  if (facts_.floor) lines.push_back({*facts_.floor, "entropy floor " + format_loss(*facts_.floor)});
  const Chart chart = loss_chart(records_, lines);
  write_file_atomic(folder_ + "/loss.svg", chart_for_any_screen_svg(chart));

  RunReport report;
  report.title = facts_.title;
  report.subtitle = facts_.subtitle;
  report.headlines = headlines(seconds);
  report.chart = chart;
  report.small_charts = rate_charts(records_);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  report.curves = curves_json({.runs = {{"run", records_}},
                               .loss_lines = lines,
                               .running = running,
                               .written = std::chrono::duration_cast<std::chrono::seconds>(now).count()});
  for (const MetricRecord& record : records_) {
    if (const std::string* text = text_of(record, kSampleKey)) {
      report.samples.push_back(
          {static_cast<int64_t>(metric_number(record, kStepKey).value_or(0)), "", *text});
    }
  }
  report.commands = facts_.commands;
  report.commands.push_back({"Continue training", facts_.resume_command});
  report.commands.push_back({"This run", facts_.command_line});
  if (facts_.plan) report.sections.push_back(facts_.plan());
  if (facts_.processes) report.sections.push_back(facts_.processes());
  report.sections.insert(report.sections.end(), facts_.sections.begin(), facts_.sections.end());
  report.footer = "Made by gpt.cpp.";
  write_file_atomic(folder_ + "/report.html", report_html(report));
  const double took = seconds_since(start);
  next_report_s_ = seconds + std::max(kReportPause, kReportShare * took);
}

}  // namespace gpt
