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

// The run folder, the backend, the ranks and the output of a run.
struct RunOptions {
  std::string out;      // the run folder
  bool resume = false;  // continue the run in `out`, whose config this is
  const KernelTable* kernels = &kernel_table(best_isa());
  std::shared_ptr<Device> device = std::make_shared<HostDevice>();  // the device of the kernels
  Communicator* processes = &single_process();                      // the ranks of the run; must outlive it
  std::string command_line;                                         // for the report
  std::string program = "gpt";  // the words before the subcommand in a command that resumes the run
  bool brief = false;           // prints only the progress, for gpt sweep
  bool silent = false;          // prints nothing, because another run of this program prints
  std::function<std::string(std::string_view)> shown = {};  // formats a message for people; none: unchanged
  std::function<void()> begins = {};  // called before the first step, when there will be work to save
};

struct RunOutcome {
  bool finished = false;     // all steps completed, or out of patience; false after stop_after
  bool interrupted = false;  // the caller interrupted the run
  bool has_best = false;     // the run folder has a best/, the model to use
};

// The backend of a run, and the state that it resumes from.
struct RunBase {
  // tuning: the text of finetune.json of a fine-tuning run. For a resumed run, resolves relative data paths
  // against the folder in which the run was started and stores them in `config`. Throws Error if the run
  // cannot be resumed.
  RunBase(const RunOptions& options, RunConfig& config, const std::string& tuning = "{}");

  const Clock::time_point started = Clock::now();
  std::optional<ResumedRun> resumed;
  bool data_elsewhere;  // data paths were resolved against the folder in which the run was started
  ThreadPool pool;
  Backend backend;
};

// The objects that a task builds for its run. They live as long as the task.
struct RunParts {
  const char* command;  // the subcommand of the program: "train"
  const RunConfig& config;
  const RunBase& base;
  Model& model;
  const ParamBuffer& weights;
  TrainStep& step;
  int64_t n_ctx;              // tokens of a sample
  std::string tuning = "{}";  // the text of finetune.json of a fine-tuning run
};

// An evaluation of the model that a run trains.
struct RunEvaluation {
  EvalLosses losses;
  // The best model has the lowest criterion; `tie` breaks ties.
  double criterion = 0, tie = 0;
  NamedValues metrics = {};  // additional metrics, named as in metrics.jsonl
  std::string text = {};     // additional text for the terminal
};

class Run;

// The task of a run: provides its samples, evaluations and messages. Pre-training (trainer.cpp) and
// fine-tuning (finetune/tuner.cpp) are tasks. The run calls these functions on every rank, except where
// noted.
class RunTask {
 public:
  virtual ~RunTask() = default;

  virtual DataIdentity identity() const = 0;
  // Sets the weights of a new run. Calls `filled` once the weights of a parameter are complete.
  virtual void init_weights(const std::function<void(int id)>& filled) = 0;
  // Returns the model whose weights a new run starts with; null for random weights.
  virtual const Model* initial_model() const = 0;
  // Called once the weights of the first step are set and all ranks agree on the run.
  virtual void weights_ready() {}
  virtual RunFacts facts(const Run& run) = 0;
  // Announces the run on rank 0 and prepares the first step.
  virtual void start(Run& run) = 0;

  // Returns the function that writes the batch of a step. May be called again for the same step until the
  // step after the next one is made.
  virtual TrainStep::FillBatch batch(int64_t step) = 0;
  // Called when the gradients of a step are complete. evaluates: an evaluation follows this step.
  virtual void before_update(bool evaluates) { (void)evaluates; }
  // Returns additional metrics of the newest step, named as in metrics.jsonl.
  virtual NamedValues step_metrics() const { return {}; }
  // Called when the result of a step is known. seconds: duration of the step. May add to the progress line.
  virtual void on_step(const Run& run, const StepState& step, double seconds, Progress& progress) {
    (void)run, (void)step, (void)seconds, (void)progress;
  }
  // Returns the text to print after a logged step.
  virtual std::string step_text(const StepMetrics& step) const = 0;

  virtual bool evaluates() const = 0;
  // Evaluates the model. Returns nothing if interrupted (Run::interrupted), on all ranks or none.
  virtual std::optional<RunEvaluation> evaluate(Run& run) = 0;
  // Called before `evaluate`, while the weights of the model are not yet replaced by their average.
  virtual void before_evaluation() {}
  // Returns the text to print after an evaluation. best: the model is the best so far and was saved.
  virtual std::string evaluation_text(Run& run, const RunEvaluation& evaluation, bool best) = 0;
  // Logs a sample of the model. Called on rank 0 only. Returns false if interrupted.
  virtual bool sample(Run& run) {
    (void)run;
    return true;
  }

  // Throws Error if the data has changed since the run read it. saves: a checkpoint follows.
  virtual void check_data(const Run& run, bool saves) { (void)run, (void)saves; }
  virtual BesideModel beside() const = 0;
  // Returns whether a single-process run saves its newest step before an error ends the run.
  virtual bool saves_before_error() const { return false; }

  // Called after the last step. Returns false if interrupted.
  virtual bool finish(Run& run) {
    (void)run;
    return true;
  }
  virtual std::string end_text(const Run& run, const RunOutcome& outcome) = 0;
};

// The run loop: resumes or starts a run, makes steps, evaluates, keeps the best model, writes checkpoints,
// metrics and the report, and stops when interrupted. The caller holds the FolderLock of the folder. All
// ranks execute the same loop; rank 0 holds the lock, writes files and prints.
class Run {
 public:
  // The task must outlive the run. Throws Error for a checkpoint that does not match or an unusable folder.
  Run(const RunOptions& options, RunTask& task, const RunParts& parts);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Makes the run. Calls `interrupted` after each step, and during evaluation and sampling. If it returns
  // true, the run finishes the step, saves and returns; a resumed run repeats the evaluation or sample that
  // was cut short. Throws Error if the disk is full or if a loss or gradient is NaN or infinite; the last
  // good checkpoint is kept.
  RunOutcome make(const std::function<bool()>& interrupted);

  const RunOptions& options() const { return options_; }
  const RunState& state() const { return state_; }
  int64_t peak_bytes() const;  // peak memory, the maximum over all processes of the run so far
  RunLog& log() const { return *log_; }
  bool is_first() const { return processes_.rank() == 0; }
  // asked_to_stop: whether this process received a signal to stop. interrupted: whether any rank did; all
  // ranks must call it.
  const std::function<bool()>& asked_to_stop() const { return asked_to_stop_; }
  const std::function<bool()>& interrupted() const { return interrupted_; }
  std::string last() const { return options_.out + "/last"; }
  std::string best() const { return options_.out + "/best"; }
  std::string resume_command() const;
  // Returns the model in best/. After a kill its step may be later than that of the last checkpoint.
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
  std::deque<NamedValues> step_metrics_;  // of the unread steps
  Clock::time_point reported_;            // time of the newest report
  std::optional<StepMetrics> unlogged_;   // the newest step, if log_every skipped it
  std::function<bool()> asked_to_stop_ = [] { return false; };
  std::function<bool()> interrupted_ = [this] {
    return any(processes_, asked_to_stop_(), "asking whether to stop");
  };
};

}  // namespace gpt
