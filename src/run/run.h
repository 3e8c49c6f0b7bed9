#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "distributed/communicator.h"
#include "kernels/backend.h"
#include "run/checkpoint.h"
#include "run/evaluation.h"
#include "run/process_report.h"
#include "run/resume.h"
#include "run/run_log.h"
#include "train/part_norms.h"
#include "train/step_queue.h"

namespace gpt {

// Where and with what a run is made.
struct RunOptions {
  std::string out;      // the run folder
  bool resume = false;  // continue the run in `out`, whose config this is
  const KernelTable* kernels = &kernel_table(Isa::ref);
  std::shared_ptr<Device> device = std::make_shared<HostDevice>();  // of the kernels
  Communicator* processes = &single_process();                      // that share the run; must outlive it
  std::string command_line;                                         // for the report
  std::string program = "gpt";  // the words before the subcommand in a command that resumes the run
  bool brief = false;           // prints only the progress: for one of many runs
  bool silent = false;          // prints nothing: another run of this program does
  std::function<std::string(std::string_view)> shown = {};  // how people read a message; none: unchanged
  std::function<void()> begins = {};  // called before the first step: from then on there is work to save
};

struct RunOutcome {
  bool finished = false;     // all steps done, or out of patience (and not stopped by stop_after)
  bool interrupted = false;  // by the caller
  bool has_best = false;     // best/ of the run folder is the model to use
};

// The machine of a run, and its earlier state.
struct RunBase {
  // tuning: of a fine-tuning run, the text of its finetune.json. A resumed run finds its data from the folder
  // in which it was started: `config` gets these names. Throws Error if it cannot be resumed.
  RunBase(const RunOptions& options, RunConfig& config, const std::string& tuning = "{}");

  const Clock::time_point started = Clock::now();
  std::optional<ResumedRun> resumed;
  bool data_elsewhere;  // found from the folder in which the run was started
  ThreadPool pool;
  Backend backend;
};

// What a task builds for its run. All of it lives as long as the task.
struct RunParts {
  const char* command;  // the subcommand of the program: "train"
  const RunConfig& config;
  const RunBase& base;
  Model& model;
  const ParamBuffer& weights;
  TrainStep& step;
  int64_t n_ctx;              // tokens of a sample
  std::string tuning = "{}";  // of a fine-tuning run, the text of its finetune.json
};

// An evaluation of the model that a run trains.
struct RunEvaluation {
  EvalLosses losses;
  // The best model has the lowest criterion, and among those the lowest tie.
  double criterion = 0, tie = 0;
  NamedValues metrics = {};  // further ones, named as in metrics.jsonl
  std::string text = {};     // for people
};

class Run;

// What a run learns: its samples, its evaluation, its words. Pre-training (trainer.cpp) and fine-tuning
// (finetune/tuner.cpp) are tasks. The run calls these functions in every process, except where noted.
class RunTask {
 public:
  virtual ~RunTask() = default;

  virtual DataIdentity identity() const = 0;
  // Sets the weights of a new run. `filled` is called once the weights of a parameter are complete.
  virtual void init_weights(const std::function<void(int id)>& filled) = 0;
  // The model whose weights a new run starts with; null if they are random.
  virtual const Model* initial_model() const = 0;
  // The weights are those of the first step, and the processes agree on the run.
  virtual void weights_ready() {}
  virtual RunFacts facts(const Run& run) = 0;
  // Announces the run, in rank 0, and prepares the first step.
  virtual void start(Run& run) = 0;

  // Returns what writes the batch of a step. A step may be asked for again until the next but one is made.
  virtual TrainStep::FillBatch batch(int64_t step) = 0;
  // The gradients of a step are complete. evaluates: the model is evaluated after this step.
  virtual void before_update(bool evaluates) { (void)evaluates; }
  // Further metrics of the newest step, named as in metrics.jsonl.
  virtual NamedValues step_metrics() const { return {}; }
  // Called when the result of a step is known, with the seconds that it took; may add to the progress line.
  virtual void on_step(const Run& run, const StepState& step, double seconds, Progress& progress) {
    (void)run, (void)step, (void)seconds, (void)progress;
  }
  // Returns what is printed after a step that was logged.
  virtual std::string step_text(const StepMetrics& step) const = 0;

  virtual bool evaluates() const = 0;
  // Returns nothing if it was interrupted (Run::interrupted), in all processes or none.
  virtual std::optional<RunEvaluation> evaluate(Run& run) = 0;
  // Returns what is printed about an evaluation. best: the model is the best so far and was saved.
  virtual std::string evaluation_text(Run& run, const RunEvaluation& evaluation, bool best) = 0;
  // Logs a sample of the model. Called in rank 0. False if it was interrupted.
  virtual bool sample(Run& run) {
    (void)run;
    return true;
  }

  // Throws Error if the data changed since the run read them. saves: a checkpoint follows.
  virtual void check_data(const Run& run, bool saves) { (void)run, (void)saves; }
  virtual BesideModel beside() const = 0;
  // Whether a run of one process saves its newest step before an error ends it.
  virtual bool saves_before_error() const { return false; }

  // All steps are made. False if it was interrupted.
  virtual bool finish(Run& run) {
    (void)run;
    return true;
  }
  virtual std::string end_text(const Run& run, const RunOutcome& outcome) = 0;
};

// The loop of a run: resumes or starts it, makes steps, evaluates, keeps the best model, writes checkpoints,
// metrics and the report, and stops when it is interrupted. The caller holds the FolderLock of the folder.
// The processes that share a run all do the same; rank 0 holds the lock, writes and prints.
class Run {
 public:
  // The task must outlive the run. Throws Error for a checkpoint that does not fit or an unusable folder.
  Run(const RunOptions& options, RunTask& task, const RunParts& parts);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // `interrupted` is called after each step, and while the run evaluates and samples; true finishes the step,
  // saves and returns, and a resumed run repeats the evaluation or sample that was cut short. Throws Error
  // for a full disk, or a loss or gradient that is NaN or infinite; the last good checkpoint stays.
  RunOutcome make(const std::function<bool()>& interrupted);

  const RunOptions& options() const { return options_; }
  const RunState& state() const { return state_; }
  int64_t peak_bytes() const;  // of memory, in all processes that made the run so far
  RunLog& log() const { return *log_; }
  bool is_first() const { return processes_.rank() == 0; }
  // Asked for by a signal to this process; and to any of the processes, which all must ask.
  const std::function<bool()>& asked_to_stop() const { return asked_to_stop_; }
  const std::function<bool()>& interrupted() const { return interrupted_; }
  std::string last() const { return options_.out + "/last"; }
  std::string best() const { return options_.out + "/best"; }
  std::string resume_command() const;
  // The model in best/. After a kill it may be of a step after the last checkpoint.
  const std::optional<BestModel>& best_model() const { return best_; }
  bool out_of_patience() const {
    return config().patience > 0 && state_.stale_evaluations >= config().patience;
  }
  bool is_complete() const {
    return (state_.step >= config().steps || out_of_patience()) && state_.pending == Pending::nothing;
  }

 private:
  const TrainConfig& config() const { return parts_.config.train; }
  int64_t steps_queued() const { return state_.step + queue_.unread(); }
  int64_t step_tokens() const { return config().batch_size * parts_.n_ctx; }
  bool is_due(int64_t every, int64_t step) const {
    return every > 0 && (step % every == 0 || step >= config().steps);
  }
  bool evaluates(int64_t step) const { return task_.evaluates() && is_due(config().eval_every, step); }
  bool is_anything_due(int64_t step) const {
    return evaluates(step) || is_due(config().sample_every, step) || is_due(config().save_every, step);
  }
  bool ends_unevaluated() const;
  void start_weights();
  void start_files();
  void step();
  void read_steps(size_t late);
  void note_step(const StepState& state);
  void report_step(const StepState& state, double seconds);
  void log_newest_step();
  void after_step(Pending from);
  void perform(Pending part, double& seconds, bool (Run::*work)());
  bool evaluate();
  void save_best(double criterion);
  bool sample();
  void save();
  void save_before_error();
  void compare_processes();
  void make_steps();
  RunOutcome finish(bool finished);

  const RunOptions options_;
  RunTask& task_;
  const RunParts parts_;
  Communicator& processes_;
  TrainStep& step_;
  StepQueue queue_;
  RunState state_;  // after the newest step that was read
  std::optional<BestModel> best_;
  std::unique_ptr<RunLog> log_;
  ProcessTimes process_times_;
  double recent_step_seconds_ = 0;
  std::optional<double> val_loss_;
  int64_t saved_step_ = -1;
  std::deque<NamedValues> step_metrics_;  // of the steps that are unread
  Clock::time_point reported_;            // when the newest step was
  std::optional<StepMetrics> unlogged_;   // the newest step, if log_every leaves it out
  std::function<bool()> asked_to_stop_ = [] { return false; };
  std::function<bool()> interrupted_ = [this] {
    return any(processes_, asked_to_stop_(), "asking whether to stop");
  };
};

}  // namespace gpt
