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

// Options of a run: the run folder, the backend, the ranks and the output.
struct RunOptions {
  std::string out;      // the run folder
  bool resume = false;  // continue the run in `out`; the config must be the config of this run
  const KernelTable* kernels = &kernel_table(best_isa());
  std::shared_ptr<Device> device = std::make_shared<HostDevice>();  // the device on which the kernels run
  Communicator* processes = &single_process();  // the ranks of the run; must outlive the run
  std::string command_line;                     // shown in the report
  // Program name in the command that resumes the run; may consist of several words.
  std::string program = "gpt";
  bool brief = false;   // only print the progress, for gpt sweep
  bool silent = false;  // print nothing, because another run of this program prints
  // Formats a message for the terminal. If the function is empty, messages are printed unchanged.
  std::function<std::string(std::string_view)> shown = {};
  std::function<void()> begins = {};  // called before the first step, when there will be work to save
};

struct RunOutcome {
  bool finished = false;     // true if all steps are completed or patience ran out; false after stop_after
  bool interrupted = false;  // true if the caller interrupted the run
  bool has_best = false;     // true if the run folder has a best/ folder, which contains the model to use
};

// Holds the backend of a run and the state from which a resumed run continues.
struct RunBase {
  // For a fine-tuning run, `tuning` is the text of finetune.json. For a resumed run, the constructor resolves
  // relative data paths against the folder in which the run was started, and stores the resolved paths in
  // `config`. Throws Error if the run cannot be resumed.
  RunBase(const RunOptions& options, RunConfig& config, const std::string& tuning = "{}");

  const Clock::time_point started = Clock::now();
  std::optional<ResumedRun> resumed;
  bool data_elsewhere;  // true if data paths were resolved against the folder in which the run was started
  ThreadPool pool;
  Backend backend;
};

// Refers to the objects that a task builds for its run. The objects must live as long as the task.
struct RunParts {
  const char* command;  // subcommand of the program, such as "train"
  const RunConfig& config;
  const RunBase& base;
  Model& model;
  const ParamBuffer& weights;
  TrainStep& step;
  int64_t n_ctx;              // number of tokens per sample
  std::string tuning = "{}";  // the text of finetune.json of a fine-tuning run
};

// Stores the result of an evaluation of the model in training.
struct RunEvaluation {
  EvalLosses losses;
  // The best model has the lowest `criterion`. If two models have the same criterion, the model with the
  // lower `tie` is better.
  double criterion = 0, tie = 0;
  NamedValues metrics = {};  // additional metrics, named as in metrics.jsonl
  std::string text = {};     // additional text for the terminal
};

class Run;

// Base class of the tasks that a run executes. A task provides the samples, evaluations and messages of the
// run. Pre-training (trainer.cpp) and fine-tuning (finetune/tuner.cpp) are tasks. Unless noted otherwise, the
// run calls the functions of the task on every rank.
class RunTask {
 public:
  virtual ~RunTask() = default;

  virtual DataIdentity identity() const = 0;
  // Initializes the weights of a new run. Calls `filled` after the weights of each parameter are complete.
  virtual void init_weights(const std::function<void(int id)>& filled) = 0;
  // Returns the model that provides the initial weights of a new run, or null if the initial weights are
  // random.
  virtual const Model* initial_model() const = 0;
  // Called after the weights for the first step are set and all ranks have agreed on the run.
  virtual void weights_ready() {}
  virtual RunFacts facts(const Run& run) = 0;
  // Called before the first step to prepare the task. On rank 0, it also announces the run.
  virtual void start(Run& run) = 0;

  // Returns the function that fills the batch of a step. May be called again for the same step, until the
  // step after the next one has run.
  virtual TrainStep::FillBatch batch(int64_t step) = 0;
  // Called when the gradients of a step are complete. `evaluates` is true if an evaluation follows this step.
  virtual void before_update(bool evaluates) { (void)evaluates; }
  // Returns additional metrics of the newest step, named as in metrics.jsonl.
  virtual NamedValues step_metrics() const { return {}; }
  // Called when the result of a step is available. `seconds` is the duration of the step. May add values to
  // the progress line.
  virtual void on_step(const Run& run, const StepState& step, double seconds, Progress& progress) {
    (void)run, (void)step, (void)seconds, (void)progress;
  }
  // Returns the text to print after a step is logged.
  virtual std::string step_text(const StepMetrics& step) const = 0;

  virtual bool evaluates() const = 0;
  // Evaluates the model. Returns nothing if the evaluation was interrupted (Run::interrupted), which must
  // happen on all ranks or on none.
  virtual std::optional<RunEvaluation> evaluate(Run& run) = 0;
  // Called before `evaluate`. At this time, the model still has its current weights and not the moving
  // average of the weights.
  virtual void before_evaluation() {}
  // Returns the text to print after an evaluation. `best` is true if the model is the best so far and was
  // saved.
  virtual std::string evaluation_text(Run& run, const RunEvaluation& evaluation, bool best) = 0;
  // Generates and logs a sample of the model. Called on rank 0 only. Returns false if it was interrupted.
  virtual bool sample(Run& run) {
    (void)run;
    return true;
  }

  // Throws Error if the data has changed since the run read it. `saves` is true if a checkpoint follows.
  virtual void check_data(const Run& run, bool saves) { (void)run, (void)saves; }
  virtual BesideModel beside() const = 0;
  // Returns true if a single-process run should save its newest step before an error ends the run.
  virtual bool saves_before_error() const { return false; }

  // Called after the last step. Returns false if it was interrupted.
  virtual bool finish(Run& run) {
    (void)run;
    return true;
  }
  virtual std::string end_text(const Run& run, const RunOutcome& outcome) = 0;
};

// Implements the run loop: starts or resumes a run, runs steps, evaluates, keeps the best model, writes
// checkpoints, metrics and the report, and stops when it is interrupted. All ranks execute the same loop, but
// only rank 0 writes files and prints. On rank 0, the caller must hold the FolderLock of the run folder.
class Run {
 public:
  // `task` must outlive the run. Throws Error if the checkpoint does not match the config or if the folder
  // cannot be used.
  Run(const RunOptions& options, RunTask& task, const RunParts& parts);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Executes the run. Calls `interrupted` after each step and during evaluation and sampling. If
  // `interrupted` returns true, the run completes the current step, saves a checkpoint and returns. If this
  // interrupts an evaluation or a sample, the resumed run repeats it. Throws Error if the disk is full or if
  // a loss or gradient is NaN or infinite; the last good checkpoint is kept.
  RunOutcome make(const std::function<bool()>& interrupted);

  const RunOptions& options() const { return options_; }
  const RunState& state() const { return state_; }
  int64_t peak_bytes() const;  // peak memory of the run so far, the maximum over all processes
  RunLog& log() const { return *log_; }
  bool is_first() const { return processes_.rank() == 0; }
  // asked_to_stop returns true if this process received a signal to stop. interrupted returns true if any
  // rank received such a signal; all ranks must call it.
  const std::function<bool()>& asked_to_stop() const { return asked_to_stop_; }
  const std::function<bool()>& interrupted() const { return interrupted_; }
  std::string last() const { return options_.out + "/last"; }
  std::string best() const { return options_.out + "/best"; }
  std::string resume_command() const;
  // Returns the record of the model in best/. If the run was killed, the step of this model may be later than
  // the step of the last checkpoint.
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
  RunState state_;  // state after the newest step that was read
  std::optional<BestModel> best_;
  std::unique_ptr<RunLog> log_;
  ProcessTimes process_times_;
  double recent_step_seconds_ = 0;
  std::optional<double> val_loss_;
  int64_t saved_step_ = -1;
  std::deque<NamedValues> step_metrics_;  // metrics of the steps that are not read yet
  Clock::time_point reported_;            // time at which the newest step was reported
  std::optional<StepMetrics> unlogged_;   // metrics of the newest step, if log_every skipped it
  std::function<bool()> asked_to_stop_ = [] { return false; };
  std::function<bool()> interrupted_ = [this] {
    return any(processes_, asked_to_stop_(), "checking for an interrupt");
  };
};

}  // namespace gpt
