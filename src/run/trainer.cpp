#include "run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/file.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "base/ranges.h"
#include "convert/format_limits.h"
#include "data/loader.h"
#include "data/preview.h"
#include "distributed/machine_share.h"
#include "eval/evaluate.h"
#include "model/model_files.h"
#include "model/training_graph.h"
#include "run/advice.h"
#include "run/announce.h"
#include "run/checkpoint.h"
#include "run/evaluation.h"
#include "run/process_report.h"
#include "run/resume.h"
#include "run/run_data.h"
#include "run/run_facts.h"
#include "run/run_log.h"
#include "run/run_model.h"
#include "run/same_run.h"
#include "run/trained_text.h"
#include "train/part_norms.h"
#include "train/schedule.h"

namespace gpt {
namespace {

class Trainer {
 public:
  explicit Trainer(const TrainRequest& request);
  TrainOutcome run(const std::function<bool()>& interrupted);

 private:
  const Clock::time_point started_ = Clock::now();
  const TrainConfig& config() const { return config_.train; }
  const TrainConfig& located_config() {
    if (resumed_) data_elsewhere_ = locate_data(config_.train, resumed_->state.data_folder);
    return config();
  }
  std::string last() const { return request_.out + "/last"; }
  std::string best() const { return request_.out + "/best"; }

  // Of the processes that share the run, the one that writes and speaks.
  bool is_first() const { return processes_.rank() == 0; }
  void start();
  void start_files();
  void start_plan(int64_t base_bytes);
  RunFact fact();
  void announce();
  TrainOutcome finish();
  void step();
  TrainStep::FillBatch batch(int64_t step);
  void report_steps(size_t late);
  void note_step(const StepState& state);
  void report_step(const StepState& state, double step_seconds);
  bool is_due(int64_t every, int64_t step) const {
    return every > 0 && (step % every == 0 || step >= config().steps);
  }
  bool evaluates(int64_t step) const { return evaluator_ && is_due(config().eval_every, step); }
  // A run that was shortened to the steps it has made.
  bool ends_unevaluated() const {
    return resumed_ && state_.step >= config().steps && evaluates(state_.step) &&
           state_.pending == Pending::nothing && log_->val_step() != state_.step;
  }
  void require_space_for_checkpoints() const;
  std::string kept() const;
  void log_newest_step();
  void make_steps();
  void perform(Pending part, double& seconds, bool (Trainer::*work)());
  bool evaluate();
  BesideModel beside() const;
  void save_best_model();
  bool wants_whole_evaluation() const {
    return evaluator_ && !request_.brief && request_.objective == &language_modelling() && is_complete();
  }
  void evaluate_whole();
  std::optional<double> whole_loss(const TokenSpan& text);
  void load_best_model();
  bool is_complete() const {
    return (state_.step >= config().steps || out_of_patience()) && state_.pending == Pending::nothing;
  }
  bool out_of_patience() const {
    return config().patience > 0 && state_.stale_evaluations >= config().patience;
  }
  bool sample();
  bool write_sample();
  void compare_processes();
  void save();
  void check_data(bool saves);
  void after_step(Pending from);

  TrainRequest request_;
  Communicator& processes_;
  RunConfig config_;
  bool data_elsewhere_ = false;  // a resumed run's, found from the folder that it was begun in
  ThreadPool pool_;
  Backend backend_;
  std::optional<ResumedRun> resumed_;
  std::unique_ptr<LoadedModel> init_;
  ChatTemplates chat_templates_;
  RunData data_;
  ShardCheck data_check_;
  Model model_;
  ParamBuffer weights_;
  DType dtype_;
  TrainStep step_;
  std::unique_ptr<Evaluator> evaluator_;
  BatchLoader loader_;
  RunState state_;
  std::optional<BestModel> best_;  // in the folder: of a step beyond state_ where a kill lost that part
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<PlanKeeper> plan_;
  ProcessTimes process_times_;
  double peak_flops_ = 0, flops_per_token_ = 0;
  double recent_step_seconds_ = 0;
  std::optional<double> val_loss_, norm_;
  std::optional<WholeLosses> whole_;  // known to rank 0
  bool lacks_whole_ = false;          // an interruption cut that evaluation short
  int64_t saved_step_ = -1;
  bool updated_ = false;                    // whether the newest step changed the weights
  PartNorms part_norms_;                    // of its gradients, if it will be evaluated
  std::deque<TrainStep::Snapshot> unread_;  // of the newest steps
  Clock::time_point reported_;              // when the newest one was
  std::optional<StepMetrics> unlogged_;     // of the newest step, if log_every leaves it out
  // Asked for by a signal to this process; and whether one of the processes was.
  std::function<bool()> asked_to_stop_ = [] { return false; };
  std::function<bool()> interrupted_ = [this] {
    return any(processes_, asked_to_stop_(), "asking whether to stop");
  };
};

Trainer::Trainer(const TrainRequest& request)
    : request_(request),
      processes_(*request.processes),
      config_(request.config),
      pool_(thread_count(request.config.train.threads, *request.processes)),
      backend_{pool_, *request.kernels, request.device},
      resumed_(request.resume ? std::optional(check_resumable(request.out, request.config)) : std::nullopt),
      init_(request.init_from.empty()
                ? nullptr
                : std::make_unique<LoadedModel>(request.init_from, std::nullopt, MatrixOrder::as_stored)),
      chat_templates_(chat_templates_of_run(request, init_.get())),
      data_(load_run_data(located_config(), init_ ? init_->model().config.n_ctx : config_.model.n_ctx,
                          tokenizer_folder_of_run(request, init_.get()))),
      data_check_(is_first() ? data_.checksums : std::vector<CheckedBytes>()),
      model_(model_of_run(request, init_.get(), data_)),
      weights_(model_.table, DType::f32, "weights", request.device.get(), /*with_frozen=*/true),
      dtype_(tensor_dtype(config().dtype)),
      step_(model_, weights_, make_optimizer(config(), model_.table, processes_), backend_,
            step_options_of_run(request, model_)),
      loader_(loader_of(data_, config(), model_.config.n_ctx)) {
  config_.model = model_.config;
  model_.weights.assign(weights_.views().begin(), weights_.views().end());
  model_.source = step_.sharded();
  check_run(config(), data_.has_val());
  if (data_.has_val() && config().eval_every > 0)
    evaluator_ = std::make_unique<Evaluator>(model_, data_, config(), *request.objective, backend_,
                                             processes_, step_.sharded());
  start();
}

// What `gpt plan` would say, without measuring: the run's own first steps tell how long they take.
void Trainer::start_plan(int64_t base_bytes) {
  RunConfig whole = config_;
  whole.train.stop_after = 0;  // a pause
  RunPlan plan({.config = whole,
                .evaluates = evaluator_ != nullptr,
                .val_tokens = request_.brief ? 0 : data_.val.size(),
                .kernels = &backend_.kernels,
                .threads = pool_.size(),
                .processes = processes_.size(),
                .base_bytes = base_bytes},
               data_.train.size());
  plan.available = base_bytes + available_memory();
  plan.peak_flops = peak_flops_;
  if (request_.forecast) plan.forecast = request_.forecast(plan);
  std::string note;
  plan_ = std::make_unique<PlanKeeper>(request_.out, std::move(plan), note);
  if (!note.empty()) log_->message(note + "\n");
  plan_->write();
}

RunFact Trainer::fact() {
  state_.peak_bytes = std::max(state_.peak_bytes, peak_resident_bytes());
  return {.steps = state_.step,
          .tokens = state_.tokens,
          .time = {.steps = state_.train_seconds,
                   .evaluation = state_.eval_seconds,
                   .sampling = state_.sample_seconds,
                   .saving = state_.save_seconds,
                   .setup = state_.setup_seconds},
          .peak_bytes = state_.peak_bytes,
          .first_loss = log_->first_loss(),
          .val_loss = log_->val_loss()};
}

void Trainer::start() {
  fault_point("train.setup");
  const int64_t base_bytes = resident_bytes();
  const DataIdentity identity = identity_of(data_);
  const auto keep_own = [&](int id) {
    if (step_.sharded() != nullptr) step_.sharded()->drop(id);
  };
  if (resumed_) {
    state_ = resumed_->state;
    check_same_data(state_.data, identity);
    load_checkpoint(last(), model_, weights_, step_.optimizer_state(), keep_own);
    best_ = read_best(best());
  } else {
    state_.history.loss_scale = initial_loss_scale(dtype_);
    if (init_) init_->copy_to(weights_, keep_own);
    init_params(model_.table, weights_, static_cast<uint64_t>(config().seed),
                init_ ? model_.table.model_count() : 0, keep_own);
  }
  step_.set_state(state_of(state_.history, config()));
  const std::string begins =
      processes_.size() > 1 ? start_of_run(resumed_.has_value(), last(), init_ ? &init_->model() : nullptr)
                            : "";
  init_.reset();
  state_.data = identity;
  std::error_code unknown;
  if (!data_elsewhere_) state_.data_folder = std::filesystem::current_path(unknown).string();
  state_.config = run_config_json(config_).dump();
  require_same_run(processes_, {state_.data, state_.config, backend_.kernels.name, state_.step, begins});
  flops_per_token_ = ModelCounts(model_.config).training_flops(model_.config.n_ctx);
  peak_flops_ = rates_together(
                    processes_, backend_.pool.size(),
                    [this] { return std::vector<double>{measure_peak_flops(backend_, dtype_)}; },
                    "measuring the machine")
                    .front();
  start_files();
  saved_step_ = resumed_ ? state_.step : -1;
  if (is_first()) {
    start_plan(base_bytes);
    announce();
  }
  if (resumed_ && !request_.brief)
    log_->message(extension_note(*resumed_, config()) + resumed_->reduce_note +
                  lost_best_note(best_, state_.step));
  state_.setup_seconds += seconds_since(started_);
}

void Trainer::start_files() {
  if (is_first()) require_space_for_checkpoints();
  const std::string machine = machine_description(pool_.size(), backend_.kernels.name);
  const std::optional<int64_t> resume_step = request_.resume ? std::optional(state_.step) : std::nullopt;
  RunFacts facts =
      collect_facts(config_, model_, data_, step_.optimizer().describe(), machine, request_.command_line);
  facts.program = request_.program;
  facts.plan = [this] { return plan_section(plan_->plan(), fact()); };
  if (processes_.size() > 1) facts.processes = [this] { return process_section(process_times_, processes_); };
  if (!is_first()) {
    log_ = std::make_unique<RunLog>(std::move(facts));
    return;
  }
  ProgressOutput output = progress_output(2);
  if (request_.silent) output.write = [](std::string_view) {};
  log_ = std::make_unique<RunLog>(request_.out, resume_step, config(), std::move(facts), output);
  // After the log: a config without metrics would be a model (resume.h), and no new run might begin.
  if (!resumed_) write_file_atomic(request_.out + "/config.json", run_config_json(config_).dump(2) + "\n");
  if (resumed_) keep_changes(request_.out, config_);
}

void Trainer::announce() {
  if (request_.brief) return;
  const RunStart start{.config = config_,
                       .data = data_,
                       .plan = plan_->plan(),
                       .out = request_.out,
                       .resumed_at = request_.resume ? std::optional(state_.step) : std::nullopt,
                       .program = request_.program};
  std::string text = data_.notes;
  if (request_.verbose) {
    text += start_details(start, step_.optimizer().describe());
    const int64_t rows = std::min(kPreviewRows, config().micro_batch);
    std::vector<int32_t> ids(static_cast<size_t>(rows * model_.config.n_ctx)), targets(ids.size());
    loader_.fill(state_.step, 0, rows, config().batch_size, ids.data(), targets.data());
    text += preview_batch(*data_.tokenizer, ids.data(), targets.data(), rows, config().batch_size,
                          model_.config.n_ctx);
  }
  text += start_lines(start);
  text += start_notes(start, request_.init_from.empty() && !request_.resume);
  text += export_limits(model_.config, data_.tokenizer.get());
  log_->message(text);
}

std::string Trainer::kept() const {
  if (saved_step_ < 0) return "no checkpoint had been saved yet";
  return fmt::format("the last good checkpoint is {} at step {}", last(), saved_step_);
}

// What cannot be saved need not be trained. Old and new checkpoint exist at once, for a moment.
void Trainer::require_space_for_checkpoints() const {
  const uint64_t best = evaluator_ && !resumed_ ? model_folder_bytes(model_) : 0;
  require_space(request_.out, checkpoint_bytes(model_, step_.optimizer_state()) + best,
                "checkpoints in " + request_.out);
}

void Trainer::step() {
  if (unread_.empty()) reported_ = Clock::now();
  step_.compute_gradients(inputs_of(config(), state_.step), batch(state_.step));
  part_norms_.clear();
  if (evaluates(state_.step + 1)) part_norms_ = gradient_norms(step_);
  step_.update();
  unread_.push_back(step_.snapshot());
  ++state_.step;
  state_.tokens += config().batch_size * model_.config.n_ctx;
  // A device computes this step while the host reports the one before.
  const size_t late = backend_.device->is_host() || processes_.size() > 1 ? 0 : 1;
  report_steps(late);
}

// Reports all steps but the newest `late`.
void Trainer::report_steps(size_t late) {
  for (; unread_.size() > late; unread_.pop_front()) {
    const StepState state = step_.read(unread_.front());
    if (state.halted) {  // the search for the tensor needs this step's batch
      step_.compute_gradients(inputs_of(config(), state.step), batch(state.step));
      require_not_halted(step_);
    }
    const double seconds = seconds_since(reported_);
    reported_ = Clock::now();
    note_step(state);
    report_step(state, seconds);
  }
}

void Trainer::note_step(const StepState& s) {
  if (s.scaling.overflows > state_.history.loss_scale.overflows)
    log_->message(fmt::format("step {}: skipped, gradients overflow fp16; loss scale now {:g} ({} skipped)\n",
                              s.step, s.scaling.scale, s.scaling.overflows));
  state_.history = history_of(s);
  updated_ = s.grad_scale != 0;
  norm_ = s.norm;
  if (!updated_ && std::isfinite(s.norm)) {
    ++state_.skipped;
    log_->message(
        fmt::format("step {}: skipped, loss {:.4f} and gradient norm {:.3f} are out of the ordinary\n",
                    s.step, s.loss, s.norm));
  }
}

void Trainer::report_step(const StepState& state, double step_seconds) {
  const double loss = state.loss, norm = state.norm, lr = state.lr;
  const int64_t step = state.step + 1;
  state_.train_seconds += step_seconds;
  process_times_.seconds += step_seconds;
  if (plan_) plan_->step(step_seconds, state_.setup_seconds);
  recent_step_seconds_ =
      recent_step_seconds_ == 0 ? step_seconds : 0.95 * recent_step_seconds_ + 0.05 * step_seconds;
  const auto step_tokens = static_cast<double>(config().batch_size * model_.config.n_ctx);
  const double tokens_per_s = step_tokens / recent_step_seconds_;
  const bool logged =
      config().log_every > 0 && (step % config().log_every == 0 || step == 1 || step == config().steps);
  unlogged_ = {
      .step = step,
      .tokens = state_.tokens - (state_.step - step) * config().batch_size * model_.config.n_ctx,
      .loss = loss,
      .lr = lr,
      .grad_norm = norm,
      .tokens_per_s = tokens_per_s,
      .seconds = state_.train_seconds,
      .loss_scale = dtype_ == DType::f16 ? std::optional(state_.history.loss_scale.scale) : std::nullopt,
      .skipped = state_.skipped + state_.history.loss_scale.overflows};
  if (logged) log_newest_step();
  peak_flops_ = std::max(peak_flops_, tokens_per_s * flops_per_token_);  // if it was measured too low
  log_->progress({.step = step,
                  .total = config().steps,
                  .loss = loss,
                  .val_loss = val_loss_,
                  .floor = data_.floor,
                  .lr = lr,
                  .grad_norm = norm,
                  .tokens_per_s = tokens_per_s,
                  .limit_share = tokens_per_s * flops_per_token_ / peak_flops_,
                  .eta_s = recent_step_seconds_ * static_cast<double>(config().steps - step)});
  if (step == 1 && logged && !request_.brief) {
    log_->message(fmt::format("first loss {:.4f}; guessing gives ln {} = {:.4f}\n", loss,
                              model_.config.vocab_size,
                              std::log(static_cast<double>(model_.config.vocab_size))));
  }
}

// Also where a run stops between two lines of the log.
void Trainer::log_newest_step() {
  if (unlogged_ && config().log_every > 0) log_->step(*unlogged_);
  unlogged_.reset();
}

TrainStep::FillBatch Trainer::batch(int64_t step) {
  return batch_of(loader_, config(), step, data_.document_end);
}

// False when it was interrupted.
bool Trainer::evaluate() {
  if (updated_) {
    const PartNorms ratios = update_ratios(step_);
    part_norms_.insert(part_norms_.end(), ratios.begin(), ratios.end());
    log_->parts(state_.step, part_norms_);
    updated_ = false;
  }
  const std::optional<EvalLosses> losses = evaluator_->losses(interrupted_);
  if (!losses) return false;
  val_loss_ = losses->val;
  log_->evaluation(state_.step, *losses);
  const bool better = state_.best_step < 0 || losses->val < state_.best_val_loss;
  state_.stale_evaluations = better ? 0 : state_.stale_evaluations + 1;
  if (better) {
    state_.best_val_loss = losses->val;
    state_.best_step = state_.step;
  }
  const bool best = better && !(best_ && best_->val_loss <= losses->val);
  if (best) save_best_model();
  if (request_.brief) return true;
  if (losses->train && state_.step == 0) {
    norm_ =
        step_.try_gradients(inputs_of(config(), state_.step), batch(state_.step)).norm;  // of the first step
  }
  log_->message(evaluation_line(*losses, {.step = state_.step,
                                          .lr = learning_rate(config(), state_.step),
                                          .norm = norm_,
                                          .floor = data_.floor,
                                          .best = best}));
  return true;
}

BesideModel Trainer::beside() const {
  return {.tokenizer_json = data_.tokenizer->to_json(),
          .write = [this](const std::string& folder) { write_chat_templates(folder, chat_templates_); }};
}

void Trainer::save_best_model() {
  best_ = BestModel{state_.best_step, state_.best_val_loss};
  const LedWeights led(step_.sharded());
  if (!is_first()) return;
  const double seconds = timed([&] { save_model(best(), model_, beside(), *best_); });
  state_.save_seconds += seconds;
  state_.eval_seconds -= seconds;  // which counts all that happens in evaluate()
}

// False when it was interrupted.
bool Trainer::sample() {
  bool done = false;
  {
    const LedWeights led(step_.sharded());
    done = is_first() && write_sample();
  }
  return of_first(processes_, done, "a sample of rank 0");
}

bool Trainer::write_sample() {
  const auto text = sample_text(model_, *data_.tokenizer, backend_, dtype_,
                                static_cast<uint64_t>(config().seed), state_.step, asked_to_stop_);
  if (!text) return false;
  log_->sample(state_.step, *text);
  log_->model_text(fmt::format("--- sample at step {} ---\n{}\n---\n", state_.step, *text));
  return true;
}

// Data that are not what they were end the run before anything is made of them that replaces a checkpoint.
void Trainer::check_data(bool saves) {
  if (!is_first()) return;
  constexpr double kLastWait = 10;  // seconds, for a run so short that its data were not read yet
  const bool last = state_.step >= config().steps || state_.step == config().stop_after;
  try {
    data_check_.finish(last ? kLastWait : 0);
    if (saves) data_check_.require_unchanged();
  } catch (const Error& error) {
    fail("training stopped at step {}: {}", state_.step, error.what());
  }
}

void Trainer::save() {
  report_steps(0);
  step_.require_finite_weights();
  log_->sync();
  state_.peak_bytes = std::max(state_.peak_bytes, peak_resident_bytes());
  save_checkpoint(last(), model_, step_.optimizer_state(), state_, beside(), processes_, step_.sharded());
  saved_step_ = state_.step;
}

// A part of the run that an interruption leaves pending.
void Trainer::perform(Pending part, double& seconds, bool (Trainer::*work)()) {
  report_steps(0);
  bool done = true;
  seconds += timed([&] {
    const AverageInModel average(model_, step_, config().ema > 0 && state_.history.updates > 0);
    done = (this->*work)();
  });
  state_.pending = done ? Pending::nothing : part;
}

void Trainer::compare_processes() {
  if (processes_.size() == 1) return;
  process_times_ =
      gather_times(processes_, step_.waited_seconds(), process_times_.seconds,
                   sent_in_step(config(), param_buffer_elements(model_.table), processes_.size()).total());
}

// What is due after a step, or what is left of it. Where an interrupt cuts it short, the state says so.
void Trainer::after_step(Pending from) {
  check_data(evaluates(state_.step) || is_due(config().save_every, state_.step));
  const bool evaluated = evaluates(state_.step) && from <= Pending::evaluation;
  state_.pending = Pending::nothing;
  if (evaluated) perform(Pending::evaluation, state_.eval_seconds, &Trainer::evaluate);
  if (is_due(config().sample_every, state_.step) && state_.pending == Pending::nothing)
    perform(Pending::sample, state_.sample_seconds, &Trainer::sample);
  if (is_due(config().save_every, state_.step)) state_.save_seconds += timed([&] { save(); });
  if (evaluated) compare_processes();
  if (evaluated && state_.step < config().steps && !out_of_patience())
    log_->write_report(state_.train_seconds, true);
}

void Trainer::make_steps() {
  if (state_.step == 0 && evaluator_ && config().eval_train) {
    perform(Pending::evaluation, state_.eval_seconds, &Trainer::evaluate);
  } else if (state_.pending != Pending::nothing) {
    saved_step_ = -1;
    after_step(state_.pending);
  }
  if (of_first(processes_, ends_unevaluated(), "the end of a run")) {
    saved_step_ = -1;
    perform(Pending::evaluation, state_.eval_seconds, &Trainer::evaluate);
  }
  while (state_.step < planned_steps(config()) && !out_of_patience() && !interrupted_()) {
    step();
    after_step(Pending::nothing);
    fault_point("train.step", state_.step);
  }
  report_steps(0);
  log_newest_step();
  if (saved_step_ == state_.step) return;
  check_data(/*saves=*/true);
  state_.save_seconds += timed([&] { save(); });
}

// Nothing where it was interrupted.
std::optional<double> Trainer::whole_loss(const TokenSpan& text) {
  EvalOptions options{.dtype = dtype_, .processes = &processes_, .stop = interrupted_};
  if (step_.sharded() != nullptr) options.idle = [this] { step_.sharded()->walk(); };
  const EvalResult result = gpt::evaluate(model_, text, options, backend_);
  return result.stopped ? std::nullopt : std::optional(result.loss());
}

// The losses that `gpt eval` computes for last/ and best/, once, when all steps are made. A run that was
// ended before it makes it when it is resumed.
void Trainer::evaluate_whole() {
  if (!wants_whole_evaluation()) return;
  whole_ = log_->whole_losses(state_.step);
  if (of_first(processes_, whole_.has_value(), "the evaluation at the end")) return;
  evaluator_.reset();  // its memory is used again
  WholeLosses losses{.all = data_.val.size() - 1};
  losses.tokens =
      whole_eval_tokens(data_.val.size(), state_.step * config().batch_size * model_.config.n_ctx);
  const TokenSpan text = data_.val.part(0, losses.tokens + 1);
  lacks_whole_ = true;
  const auto last = whole_loss(text);
  if (!last) return;
  losses.last = *last;
  const bool has_other = best_ && (best_->step != state_.step || config().ema > 0);
  if (of_first(processes_, has_other, "the best model")) {
    load_best_model();
    losses.best = whole_loss(text);
    if (!losses.best) return;
  }
  lacks_whole_ = false;
  whole_ = losses;
  log_->whole_evaluation(state_.step, losses);
}

// In place of the newest weights, which are in last/ and not needed any more.
void Trainer::load_best_model() {
  const LoadedModel loaded(best(), std::nullopt, MatrixOrder::as_stored);
  loaded.copy_to(weights_, [&](int id) {
    model_.packed->weights_changed(id);
    if (step_.sharded() != nullptr) step_.sharded()->drop(id);
  });
}

TrainOutcome Trainer::run(const std::function<bool()>& interrupted) {
  if (interrupted) asked_to_stop_ = interrupted;
  if (request_.begins) request_.begins();
  try {
    make_steps();
    state_.eval_seconds += timed([&] { evaluate_whole(); });
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    fail("{}; {}", error.what(), kept());
  }
  if (out_of_patience())
    log_->ended(fmt::format("ended at step {}: {} without a better validation loss", state_.step,
                            format_amount(state_.stale_evaluations, "evaluation")));
  compare_processes();
  log_->write_report(state_.train_seconds);
  log_->finish();
  return finish();
}

TrainOutcome Trainer::finish() {
  // What is in best/, which may be better than all that this run knows of (save_best_model).
  const bool lost = best_ && (state_.best_step < 0 || best_->val_loss < state_.best_val_loss);
  const TrainOutcome outcome{.steps_done = state_.step,
                             .finished = is_complete() && !lacks_whole_,
                             .interrupted = interrupted_(),
                             .best_val_loss = state_.best_val_loss};
  if (!process_times_.waited.empty()) log_->message(process_line(process_times_));
  if (!request_.brief)
    log_->message(end_lines({.step = state_.step,
                             .steps = config().steps,
                             .finished = outcome.finished,
                             .interrupted = outcome.interrupted,
                             .seconds = state_.train_seconds,
                             .val_loss = log_->val_loss(),
                             .val_step = log_->val_step().value_or(-1),
                             .best_val_loss = lost ? best_->val_loss : state_.best_val_loss,
                             .best_step = lost ? best_->step : state_.best_step,
                             .whole = whole_,
                             .dtype = dtype_,
                             .patience = config().patience,
                             .out = request_.out,
                             .program = request_.program}) +
                  log_->divergence_note(config()));
  return outcome;
}

}  // namespace

TrainOutcome run_training(const TrainRequest& request, const std::function<bool()>& interrupted) {
  open_run_folder(*request.processes, request.out, request.config.train, request.resume, request.repeats);
  return Trainer(request).run(interrupted);
}

}  // namespace gpt
