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

// Stores the metrics of one step.
struct StepMetrics {
  int64_t step = 0;    // completed steps, including this step
  int64_t tokens = 0;  // tokens trained on so far
  double loss = 0, lr = 0, grad_norm = 0;
  double tokens_per_s = 0;
  double seconds = 0;                     // training time so far
  std::optional<double> loss_scale = {};  // fp16 only
  int64_t skipped = 0;                    // steps without an update so far
  NamedValues more = {};                  // additional metrics, logged as a separate record
};

// Stores facts for the report. These facts do not change during a run.
struct RunFacts {
  std::string title, subtitle;
  // The command that started the run, and the command that resumes it.
  std::string command_line, resume_command;
  int64_t vocab_size = 0;
  bool nats = true;             // the loss is a cross-entropy per token, so perplexity is meaningful
  std::optional<double> floor;  // entropy of the text in nats per token
  double bytes_per_token = 1;
  std::vector<ReportCommand> commands = {};  // suggested commands for using the model
  std::vector<ReportSection> sections;       // config, parameters, data and machine
  // Returns the section that compares the estimate with the actual run. The section may be empty.
  std::function<ReportSection()> plan;
  std::function<ReportSection()> processes = {};  // returns the section about the ranks; may be empty
  // Formats a message for the terminal. If the function is empty, messages are printed unchanged.
  std::function<std::string(std::string_view)> shown = {};
};

// Writes all output of a run: the progress line, metrics.jsonl, TensorBoard events, loss.svg and report.html.
class RunLog {
 public:
  // Creates the log of a rank other than 0. Such a log writes nothing, but stores the records that it
  // receives.
  explicit RunLog(RunFacts facts) : facts_(std::move(facts)) {}
  RunLog(const std::string& folder, std::optional<int64_t> resume_step, const TrainConfig& config,
         RunFacts facts, const ProgressOutput& output = progress_output(2));

  void progress(const Progress& progress);
  void message(const std::string& text);     // prints the text, if it is not empty
  void model_text(const std::string& text);  // calls ProgressLine::model_text
  void finish();
  void step(const StepMetrics& m);
  void evaluation(int64_t step, const EvalLosses& losses);
  void whole_evaluation(int64_t step, const WholeLosses& losses);
  std::optional<WholeLosses> whole_losses(int64_t step) const;  // returns the record logged for this step
  // Logs additional metrics, such as the gradient norm of each part of the model: "grad_norm/block 0"
  // (run_charts.h).
  void metrics(int64_t step, const NamedValues& values);
  void sample(int64_t step, const std::string& text);
  // Returns all logged values of a metric, in step order.
  std::vector<double> values(std::string_view key) const;
  // Returns a line with advice if the training loss ends far above the first loss. Otherwise returns "".
  std::string divergence_note(const TrainConfig& config) const;
  std::optional<double> first_loss() const;  // returns the training loss of step 1, if it was logged
  std::optional<double> val_loss() const;    // returns the newest validation loss
  std::optional<int64_t> val_step() const;   // returns the step of the newest validation loss
  void sync();
  // Adds the reason why the run ended before its last step to the top of the report.
  void ended(const std::string& why) { facts_.subtitle += "; " + why; }
  // Writes loss.svg and report.html. If `running` is true, the report page refreshes itself in the browser.
  // step() also writes the report from time to time, and spends less than 1/250 of the training time on it.
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
  std::unique_ptr<Outputs> outputs_;  // null on ranks other than 0
  double next_report_s_ = 10;         // training time at which the next report is written, in seconds
};

}  // namespace gpt
