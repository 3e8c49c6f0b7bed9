#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/metrics.h"
#include "report/progress.h"
#include "report/report_html.h"
#include "report/tfevents.h"
#include "run/evaluation.h"
#include "train/part_norms.h"
#include "train/train_config.h"

namespace gpt {

// What a step leaves behind.
struct StepMetrics {
  int64_t step = 0;    // steps done, this one included
  int64_t tokens = 0;  // trained on so far
  double loss = 0, lr = 0, grad_norm = 0;
  double tokens_per_s = 0;
  double seconds = 0;                     // of training so far
  std::optional<double> loss_scale = {};  // fp16
  int64_t skipped = 0;                    // steps without an update so far
  NamedValues more = {};                  // further ones, which get a line of their own
};

// Fixed facts of a run, for its report.
struct RunFacts {
  std::string title, subtitle;
  std::string command_line, resume_command;  // that made the run, and that continues it
  int64_t vocab_size = 0;
  bool nats = true;             // the loss is a cross-entropy of tokens, so that perplexity says something
  std::optional<double> floor;  // nats per token
  double bytes_per_token = 1;
  std::vector<ReportCommand> commands = {};                 // what one does with the model
  std::vector<ReportSection> sections;                      // config, parameters, data, machine
  std::function<ReportSection()> plan;                      // beside what became of it so far; or none
  std::function<ReportSection()> processes = {};            // that share the run; or none
  std::function<std::string(std::string_view)> shown = {};  // how people read a message; none: unchanged
};

// Everything that a run tells: the progress line, metrics.jsonl, TensorBoard events, loss.svg, report.html.
class RunLog {
 public:
  // Of a process beside the one that speaks: writes nothing, and knows what it is told.
  explicit RunLog(RunFacts facts) : facts_(std::move(facts)) {}
  RunLog(const std::string& folder, std::optional<int64_t> resume_step, const TrainConfig& config,
         RunFacts facts, const ProgressOutput& output = progress_output(2));

  void progress(const Progress& progress);
  void message(const std::string& text);     // lines; "": none
  void model_text(const std::string& text);  // ProgressLine::model_text
  void finish();
  void step(const StepMetrics& m);
  void evaluation(int64_t step, const EvalLosses& losses);
  void whole_evaluation(int64_t step, const WholeLosses& losses);
  std::optional<WholeLosses> whole_losses(int64_t step) const;  // that were logged for this step
  // Further metrics, such as norms by part of the model: "grad_norm/block 0" (run_charts.h).
  void metrics(int64_t step, const NamedValues& values);
  void sample(int64_t step, const std::string& text);
  std::vector<double> values(std::string_view key) const;  // of a metric, in the order of the steps
  // A line about a run whose training losses end far above the first one, with what to change; "" for others.
  std::string divergence_note(const TrainConfig& config) const;
  std::optional<double> first_loss() const;  // of step 1, where it was logged
  std::optional<double> val_loss() const;    // the newest
  std::optional<int64_t> val_step() const;   // of it
  void sync();
  // For the top of the report: why the run ended before its last step.
  void ended(const std::string& why) { facts_.subtitle += "; " + why; }
  // Rewrites loss.svg and report.html; the page of a running run refreshes itself. step() does the same from
  // time to time, so rarely that it takes less than 1/250 of the time.
  void write_report(double seconds, bool running = false);

 private:
  void append(MetricRecord record);
  const MetricRecord* newest_evaluation() const;
  int64_t steps_done() const;
  std::vector<ReportHeadline> headlines(double seconds) const;

  struct Outputs {
    MetricsLog metrics;
    TensorBoardWriter tensorboard;
    ProgressLine line;
  };

  std::string folder_;
  RunFacts facts_;
  int64_t steps_ = 0;
  std::vector<MetricRecord> records_;
  std::unique_ptr<Outputs> outputs_;  // or none
  double next_report_s_ = 10;         // seconds of training
};

}  // namespace gpt
