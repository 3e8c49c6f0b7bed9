#include "run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/fault_point.h"
#include "base/file.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "report/next_step.h"
#include "run/same_run.h"
#include "run/trained_text.h"
#include "train/param_groups.h"
#include "train/schedule.h"
#include "train/step_history.h"

namespace gpt {

RunBase::RunBase(const RunOptions& options, RunConfig& config, const std::string& tuning)
    : resumed(options.resume ? std::optional(check_resumable(options.out, config, tuning)) : std::nullopt),
      data_elsewhere(resumed && locate_data(config.train, resumed->state.data_folder)),
      pool(thread_count(config.train.threads, *options.processes)),
      backend{pool, *options.kernels, options.device} {}

Run::Run(const RunOptions& options, RunTask& task, const RunParts& parts)
    : options_(options),
      task_(task),
      parts_(parts),
      processes_(*options.processes),
      step_(parts.step),
      queue_(parts.step, parts.config.train, [&task](int64_t step) { return task.batch(step); }) {
  start_weights();
  task_.weights_ready();
  start_files();
  task_.start(*this);
  const std::optional<ResumedRun>& resumed = parts_.base.resumed;
  if (resumed && !options_.brief)
    log_->message(extension_note(*resumed, config()) + resumed->reduce_note +
                  lost_best_note(best_, state_.step));
  state_.setup_seconds += seconds_since(parts_.base.started);
}

void Run::start_weights() {
  const std::optional<ResumedRun>& resumed = parts_.base.resumed;
  const DataIdentity identity = task_.identity();
  const auto keep_own = [&](int id) {
    if (step_.sharded() != nullptr) step_.sharded()->drop(id);
  };
  if (resumed) {
    state_ = resumed->state;
    check_same_data(state_.data, identity);
    load_checkpoint(last(), parts_.model, parts_.weights, step_.optimizer_state(), keep_own);
    best_ = read_best(best());
  } else {
    state_.history.loss_scale = initial_loss_scale(tensor_dtype(config().dtype));
    task_.init_weights(keep_own);
  }
  saved_step_ = resumed ? state_.step : -1;
  step_.set_state(state_of(state_.history, config()));
  const std::string begins =
      processes_.size() > 1 ? start_of_run(resumed.has_value(), last(), task_.initial_model()) : "";
  state_.data = identity;
  std::error_code unknown;
  if (!parts_.base.data_elsewhere) state_.data_folder = std::filesystem::current_path(unknown).string();
  state_.config = run_config_json(parts_.config).dump();
  state_.tuning = parts_.tuning;
  require_same_run(processes_, {state_.data, state_.config, parts_.base.backend.kernels.name, state_.step,
                                begins, state_.tuning});
}

// Opens the log and writes the config files. First checks that the disk has enough space for the checkpoints,
// so that a run does not train a model that it cannot save.
void Run::start_files() {
  RunFacts facts = task_.facts(*this);
  facts.command_line = options_.command_line;
  facts.resume_command = resume_command();
  facts.shown = options_.shown;
  if (processes_.size() > 1) facts.processes = [this] { return process_section(process_times_, processes_); };
  if (!is_first()) {
    log_ = std::make_unique<RunLog>(std::move(facts));
    return;
  }
  const uint64_t best = task_.evaluates() && !options_.resume ? model_folder_bytes(parts_.model) : 0;
  require_space(options_.out, checkpoint_bytes(parts_.model, step_.optimizer_state()) + best,
                "checkpoints in " + options_.out);
  ProgressOutput output = progress_output(2);
  if (options_.silent) output.write = [](std::string_view) {};
  log_ = std::make_unique<RunLog>(options_.out, options_.resume ? std::optional(state_.step) : std::nullopt,
                                  config(), std::move(facts), output);
  if (options_.resume) return keep_changes(options_.out, parts_.config);
  // The config files are written after metrics.jsonl. If the folder contained a config.json but no
  // metrics.jsonl, it would count as a model folder, and no new run could start in it (resume.h).
  if (parts_.tuning != "{}")
    write_file_atomic(options_.out + "/finetune.json", nlohmann::json::parse(parts_.tuning).dump(2) + "\n");
  write_file_atomic(options_.out + "/config.json", run_config_json(parts_.config).dump(2) + "\n");
}

std::string Run::resume_command() const {
  const std::string out = shell_quoted(options_.out);
  return fmt::format("{} {} --resume --out {}", options_.program, parts_.command, out);  // a command
}

int64_t Run::peak_bytes() const {
  return std::max(state_.peak_bytes, peak_resident_bytes());
}

void Run::step() {
  const int64_t step = steps_queued();
  if (queue_.unread() == 0) reported_ = Clock::now();
  queue_.make(step, {.before_update = [&] { task_.before_update(evaluates(step + 1)); }});
  step_metrics_.push_back(task_.step_metrics());
  read_steps(is_anything_due(step + 1) ? 0 : queue_.late());
}

// Reads and reports the queued steps, except the newest `late` steps.
void Run::read_steps(size_t late) {
  while (const std::optional<StepState> state = queue_.read(late)) {
    const double seconds = seconds_since(reported_);
    reported_ = Clock::now();
    note_step(*state);
    report_step(*state, seconds);
  }
}

void Run::note_step(const StepState& s) {
  if (s.scaling.overflows > state_.history.loss_scale.overflows)
    log_->message(fmt::format("step {}: skipped, gradients overflow fp16; loss scale now {:g} ({} skipped)\n",
                              s.step, s.scaling.scale, s.scaling.overflows));
  state_.history = history_of(s);
  ++state_.step;
  state_.tokens += step_tokens();
  if (s.grad_scale != 0 || !std::isfinite(s.norm)) return;
  ++state_.skipped;
  log_->message(fmt::format("step {}: skipped, loss {:.4f} or gradient norm {:.3f} is an outlier\n", s.step,
                            s.loss, s.norm));
}

void Run::report_step(const StepState& s, double seconds) {
  state_.train_seconds += seconds;
  process_times_.seconds += seconds;
  recent_step_seconds_ = recent_step_seconds_ == 0 ? seconds : 0.95 * recent_step_seconds_ + 0.05 * seconds;
  const double tokens_per_s = static_cast<double>(step_tokens()) / recent_step_seconds_;
  const LossScale& scaling = state_.history.loss_scale;
  unlogged_ = {
      .step = state_.step,
      .tokens = state_.tokens,
      .loss = s.loss,
      .lr = s.lr,
      .grad_norm = s.norm,
      .tokens_per_s = tokens_per_s,
      .seconds = state_.train_seconds,
      .loss_scale = tensor_dtype(config().dtype) == DType::f16 ? std::optional(scaling.scale) : std::nullopt,
      .skipped = state_.skipped + scaling.overflows,
      .more = step_metrics_.front()};
  step_metrics_.pop_front();
  Progress progress{.step = state_.step,
                    .total = config().steps,
                    .loss = s.loss,
                    .val_loss = val_loss_,
                    .lr = s.lr,
                    .grad_norm = s.norm,
                    .tokens_per_s = tokens_per_s,
                    .eta_s = recent_step_seconds_ * static_cast<double>(config().steps - state_.step)};
  task_.on_step(*this, s, seconds, progress);
  log_->progress(progress);
  if (state_.step == 1 || is_due(config().log_every, state_.step)) log_newest_step();
}

// Logs the newest step if it is not logged yet. Also called when a run stops between two logged steps.
void Run::log_newest_step() {
  if (unlogged_ && config().log_every > 0) {
    log_->step(*unlogged_);
    log_->message(task_.step_text(*unlogged_));
  }
  unlogged_.reset();
}

// Returns true if a resumed run has no steps left and its newest step was not evaluated. This happens if
// `steps` was reduced to the number of completed steps.
bool Run::ends_unevaluated() const {
  return options_.resume && state_.step >= config().steps && evaluates(state_.step) &&
         state_.pending == Pending::nothing && log_->val_step() != state_.step;
}

// Returns false if the evaluation was interrupted.
bool Run::evaluate() {
  const std::optional<RunEvaluation> evaluation = task_.evaluate(*this);
  if (!evaluation) return false;
  val_loss_ = evaluation->losses.val;
  log_->evaluation(state_.step, evaluation->losses);
  log_->metrics(state_.step, evaluation->metrics);
  const std::pair score(evaluation->criterion, evaluation->tie);
  const bool better = std::isfinite(score.first) &&
                      (state_.best_step < 0 || score < std::pair(state_.best_val_loss, state_.best_tie_loss));
  // After a kill, best/ may contain a model from a lost step. The model stays in best/ until a better model
  // is found.
  const bool has_lost_best = best_ && best_->step != state_.best_step;
  const bool best = better && !(has_lost_best && best_->val_loss <= score.first);
  state_.stale_evaluations = better ? 0 : state_.stale_evaluations + 1;
  if (better) {
    std::tie(state_.best_val_loss, state_.best_tie_loss) = score;
    state_.best_step = state_.step;
  }
  if (best) save_best(score.first);
  log_->message(task_.evaluation_text(*this, *evaluation, best));
  return true;
}

void Run::save_best(double criterion) {
  best_ = BestModel{state_.step, criterion};
  const LedWeights led(step_.sharded());
  if (!is_first()) return;
  const double seconds = timed([&] { save_model(best(), parts_.model, task_.beside(), *best_); });
  state_.save_seconds += seconds;
  state_.eval_seconds -= seconds;  // eval_seconds includes all time spent in evaluate()
}

// Returns false if sampling was interrupted.
bool Run::sample() {
  bool done = false;
  {
    const LedWeights led(step_.sharded());
    done = is_first() && task_.sample(*this);
  }
  return of_first(processes_, done, "sampling text on rank 0");
}

void Run::save() {
  read_steps(0);
  step_.require_finite_weights();
  log_->sync();
  state_.peak_bytes = peak_bytes();
  save_checkpoint(last(), parts_.model, step_.optimizer_state(), state_, task_.beside(), processes_,
                  step_.sharded());
  saved_step_ = state_.step;
}

// Saves a checkpoint before an error ends the run. This is possible because a failed step does not change the
// weights. With several processes nothing is saved, because they might be at different steps.
void Run::save_before_error() {
  if (!task_.saves_before_error() || processes_.size() > 1) return;
  try {
    read_steps(0);
    if (state_.step > 0 && saved_step_ != state_.step) save();
  } catch (const Error&) {  // the original error is more informative
  }
}

// Runs an evaluation or generates a sample. If this work is interrupted, the state records it as pending, so
// that the resumed run repeats it.
void Run::perform(Pending part, double& seconds, bool (Run::*work)()) {
  bool done = true;
  seconds += timed([&] {
    if (part == Pending::evaluation) task_.before_evaluation();
    const AverageInModel average(parts_.model, step_, config().ema > 0 && state_.history.updates > 0);
    done = (this->*work)();
  });
  state_.pending = done ? Pending::nothing : part;
}

void Run::compare_processes() {
  if (processes_.size() == 1) return;
  process_times_ = gather_times(
      processes_, step_.waited_seconds(), process_times_.seconds,
      sent_in_step(config(), param_buffer_elements(parts_.model.table), processes_.size()).total());
}

// Does the work that is due after a step, starting with the work `from`. If the work is interrupted, the
// state records the remaining work as pending.
void Run::after_step(Pending from) {
  const int64_t step = steps_queued();
  const bool evaluated = evaluates(step) && from <= Pending::evaluation;
  task_.check_data(*this, evaluates(step) || is_due(config().save_every, step));
  state_.pending = Pending::nothing;
  if (evaluated) perform(Pending::evaluation, state_.eval_seconds, &Run::evaluate);
  if (is_due(config().sample_every, step) && state_.pending == Pending::nothing)
    perform(Pending::sample, state_.sample_seconds, &Run::sample);
  if (is_due(config().save_every, step)) state_.save_seconds += timed([&] { save(); });
  if (evaluated) compare_processes();
  if (evaluated && step < config().steps && !out_of_patience())
    log_->write_report(state_.train_seconds, true);
}

void Run::make_steps() {
  if (state_.step == 0 && task_.evaluates() && config().eval_train) {
    perform(Pending::evaluation, state_.eval_seconds, &Run::evaluate);
  } else if (state_.pending != Pending::nothing) {
    saved_step_ = -1;
    after_step(state_.pending);
  }
  if (of_first(processes_, ends_unevaluated(), "checking for a missing evaluation")) {
    saved_step_ = -1;
    perform(Pending::evaluation, state_.eval_seconds, &Run::evaluate);
  }
  while (steps_queued() < planned_steps(config()) && !out_of_patience() && !interrupted_()) {
    step();
    after_step(Pending::nothing);
    fault_point(fmt::format("{}.step", parts_.command), steps_queued());
  }
  read_steps(0);
  log_newest_step();
  if (saved_step_ == state_.step) return;
  task_.check_data(*this, /*saves=*/true);
  state_.save_seconds += timed([&] { save(); });
}

RunOutcome Run::make(const std::function<bool()>& interrupted) {
  if (interrupted) asked_to_stop_ = interrupted;
  if (options_.begins) options_.begins();
  bool finished = true;
  try {
    make_steps();
    state_.eval_seconds += timed([&] { finished = task_.finish(*this); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) throw;
    save_before_error();
    fail_because(error, "{}; {}", error.what(),
                 saved_step_ < 0
                     ? "no checkpoint was saved"
                     : fmt::format("the last good checkpoint is {} at step {}", last(), saved_step_));
  }
  if (out_of_patience())
    log_->ended(fmt::format("ended early at step {}: {} without a better validation loss", state_.step,
                            format_amount(state_.stale_evaluations, "evaluation")));
  compare_processes();
  log_->write_report(state_.train_seconds);
  log_->finish();
  return finish(finished);
}

RunOutcome Run::finish(bool finished) {
  const RunOutcome outcome{.finished = is_complete() && finished,
                           .interrupted = interrupted_(),
                           .has_best = state_.best_step >= 0};
  if (!process_times_.waited.empty()) log_->message(process_line(process_times_));
  if (!options_.brief) log_->message(task_.end_text(*this, outcome));
  return outcome;
}

}  // namespace gpt
