#include "finetune/tuner.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/file.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "chat/model_text.h"
#include "convert/adapter_files.h"
#include "data/token_hash.h"
#include "distributed/communicator.h"
#include "finetune/task.h"
#include "finetune/tune_report.h"
#include "model/model_files.h"
#include "report/next_step.h"
#include "report/run_charts.h"
#include "run/checkpoint.h"
#include "run/plan.h"
#include "run/process_report.h"
#include "run/resume.h"
#include "run/run_facts.h"
#include "run/run_log.h"
#include "run/same_run.h"
#include "run/trained_text.h"
#include "tensor/device.h"
#include "train/param_groups.h"
#include "train/schedule.h"
#include "train/step_history.h"

namespace gpt {
namespace {

int64_t steps_of_epoch(const Task& task, int64_t batch_size) {
  return (task.samples() + batch_size - 1) / batch_size;
}

// Fills in what nobody has set: batch size, epochs, steps, and an evaluation after each epoch. Whole epochs
// see every example: the last batch of a run is filled up with examples of a further epoch.
void choose_length(TuneRequest& request, const Task& task) {
  TrainConfig& c = request.config.run.train;
  const int64_t shards = std::lcm(std::max<int64_t>(1, c.grad_shards), request.processes->size());
  const int64_t unit = shards * std::lcm(task.group(), request.micro_given ? c.micro_batch : 1);
  // The rewards of a single prompt are too noisy for a step.
  const int64_t smallest = request.config.task == "grpo" ? c.batch_size : 1;
  const TuneLength length = fitting_length(
      task.samples(),
      {.unit = request.batch_given ? c.batch_size : unit, .smallest = smallest, .largest = c.batch_size},
      request.config.epochs);
  if (!request.batch_given) {
    c.batch_size = length.batch_size;
    if (!request.micro_given) c.micro_batch = c.batch_size;
  }
  if (request.config.epochs == 0) request.config.epochs = length.epochs;
  if (request.share) request.share(c);
  if (!request.steps_given) {
    constexpr double kRounding = 1e-9;  // of a product that should be whole
    const double steps =
        request.config.epochs * static_cast<double>(task.samples()) / static_cast<double>(c.batch_size);
    c.steps = std::max<int64_t>(1, std::llround(std::ceil(steps * (1 - kRounding))));
  }
  if (!request.eval_given) c.eval_every = std::min(steps_of_epoch(task, c.batch_size), c.steps);
}

std::unique_ptr<Task> task_of(TuneRequest& request, const LoadedModel& base) {
  const TuneConfig& config = request.config;
  std::shared_ptr<const Tokenizer> tokenizer = model_tokenizer(base, "");
  if (tokenizer == nullptr)
    fail("{} has no tokenizer, which fine-tuning needs: put its tokenizer.json beside it", config.model);
  auto task = make_task({.config = config,
                         .base = base,
                         .model = base.model().config,
                         .tokenizer = std::move(tokenizer),
                         .out = request.out});
  task->processes = request.processes;
  if (!request.resume) choose_length(request, *task);
  task->set_batch_size(config.train().batch_size);
  return task;
}

ModelConfig model_config(const TuneConfig& config, const LoadedModel& base, const Task& task) {
  ModelConfig c = base.model().config;
  const ModelConfig& asked = config.run.model;
  c.dropout = asked.dropout;
  c.embd_dropout = asked.embd_dropout;
  c.attn_dropout = asked.attn_dropout;
  c.resid_dropout = asked.resid_dropout;
  task.adapt(c);
  complete(c);
  return c;
}

// What the run begins with, and an adapter stays beside: where its file has it, in the type and order that it
// has there.
std::unique_ptr<LoadedModel> open_base(const TuneRequest& request) {
  if (request.config.lora_rank > 0) {
    return std::make_unique<LoadedModel>(request.config.model, std::nullopt, MatrixOrder::as_stored,
                                         ShapeHints{}, request.device.get());
  }
  return std::make_unique<LoadedModel>(request.resume ? request.out + "/last" : request.config.model);
}

AdapterSettings adapter_settings(const TuneConfig& c) {
  return {.rank = c.lora_rank,
          .alpha = c.lora_alpha > 0 ? c.lora_alpha : 2 * static_cast<double>(c.lora_rank),
          .rslora = c.rslora,
          .dropout = c.lora_dropout,
          .targets = c.lora_targets};
}

// "1,234 parameters", and of these how many are trained where others are frozen.
std::string parameters_of(const ParamTable& table) {
  int64_t trained = 0;
  for (const ParamSpec& spec : table.specs())
    trained += spec.trainable ? spec.size() : 0;
  const std::string all = format_thousands(table.total()) + " parameters";
  return trained == table.total() ? all : fmt::format("{} of {} are trained", format_thousands(trained), all);
}

// The model itself, or an adapter beside one that is frozen, mapped from its file.
struct Trained {
  Trained(const TuneConfig& c, const LoadedModel& base, Task& task, Device* device) {
    const ModelConfig config = model_config(c, base, task);
    std::vector<ParamSpec> more = task.objective().parameters(config);
    if (c.lora_rank == 0) {
      model = std::make_unique<Model>(config, more);
      freeze_parameters(c.train(), model->table);
      weights = ParamBuffer(model->table, DType::f32, "weights", device, /*with_frozen=*/true);
      model->weights.assign(weights.views().begin(), weights.views().end());
      return;
    }
    if (!task.takes_adapter())
      fail_parameter("lora_rank", "--task {} trains no adapter; leave --lora-rank out", c.task);
    if (config.vocab_size != base.model().config.vocab_size) {
      fail_parameter("lora_rank",
                     "the chat template has {} that {} lacks, and an adapter adds no rows to its embedding; "
                     "choose a --template of tokens that it has, or fine-tune it without --lora-rank first",
                     format_amount(config.vocab_size - base.model().config.vocab_size, "token"), c.model);
    }
    adapted = std::make_unique<AdaptedModel>(base.model(), adapter_settings(c), std::move(more), device);
    adapted->model.config = config;  // with the dropout that was asked for
    task.adapter = &adapted->adapter;
  }

  std::unique_ptr<AdaptedModel> adapted;
  std::unique_ptr<Model> model;
  ParamBuffer weights;
};

class Tuner {
 public:
  explicit Tuner(const TuneRequest& request);
  TuneOutcome run(const std::function<bool()>& interrupted);

 private:
  const TrainConfig& config() const { return request_.config.run.train; }
  std::string last() const { return request_.out + "/last"; }
  std::string best() const { return request_.out + "/best"; }
  std::string resume_command() const {
    return request_.program + " finetune --resume --out " + shell_quoted(request_.out);
  }
  double epoch() const {
    return static_cast<double>(state_.step * config().batch_size) / static_cast<double>(task_->samples());
  }
  bool is_due(int64_t every) const {
    return every > 0 && (state_.step % every == 0 || state_.step >= config().steps);
  }
  bool out_of_patience() const {
    return config().patience > 0 && state_.stale_evaluations >= config().patience;
  }
  BesideModel beside() const;
  void start();
  RunFacts facts() const;
  void announce() const;
  void make_steps();
  void step();
  void report_step(double seconds);
  void log_newest_step();
  void after_step();
  void evaluate();
  void save_best(const TaskScore& score);
  void save();
  void save_what_is_done();
  TuneOutcome finish();
  // Of the processes that share the run, the one that writes and speaks.
  bool is_first() const { return processes_.rank() == 0; }
  void start_files();
  void compare_processes();

  TuneRequest request_;
  Communicator& processes_;
  std::optional<ResumedRun> resumed_;
  ThreadPool pool_;
  Backend backend_;
  std::unique_ptr<LoadedModel> base_;
  bool data_elsewhere_;  // a resumed run's, found from the folder that it was begun in
  std::unique_ptr<Task> task_;
  Trained trained_;
  Model& model_;
  ParamBuffer& weights_;
  TrainStep step_;
  RunState state_;
  std::unique_ptr<RunLog> log_;
  std::optional<double> val_loss_;
  std::string best_text_;                // what the best evaluation of this process said
  std::optional<StepMetrics> unlogged_;  // of the newest step, if log_every leaves it out
  double recent_step_seconds_ = 0;
  int64_t saved_step_ = -1;
  ProcessTimes process_times_;
  // Asked for by a signal to this process; and whether one of the processes was.
  std::function<bool()> asked_to_stop_ = [] { return false; };
  std::function<bool()> interrupted_ = [this] {
    return any(processes_, asked_to_stop_(), "asking whether to stop");
  };
};

TrainStep::Options options_of(const TrainConfig& config, const ParamTable& table, const Task& task,
                              Communicator& processes) {
  TrainStep::Options options = step_options(config, table, task.n_ctx(), processes);
  if (config.zero > 2)
    fail_parameter("zero", "fine-tuning divides the optimizer's state (1) and gradients (2), found {}",
                   config.zero);
  options.graph.adapter = task.adapter;
  options.graph.packs_per_use = task.adapter != nullptr;
  options.graph.objective = &task.objective();
  const int64_t group = task.objective().group();
  if (options.micro_batch % group != 0) {
    fail_usage(
        "config key \"micro_batch\": expected a multiple of {}, the samples that belong together, found {}",
        group, options.micro_batch);
  }
  return options;
}

Tuner::Tuner(const TuneRequest& request)
    : request_(request),
      processes_(*request.processes),
      resumed_(request.resume ? std::optional(check_resumable(request.out, request.config.run,
                                                              tune_config_json(request.config).dump()))
                              : std::nullopt),
      pool_(thread_count(request.config.run.train.threads, processes_)),
      backend_{pool_, *request.kernels, request.device},
      base_(open_base(request)),
      data_elsewhere_(resumed_ && locate_data(request_.config.run.train, resumed_->state.data_folder)),
      task_(task_of(request_, *base_)),
      trained_(request_.config, *base_, *task_, request.device.get()),
      model_(trained_.adapted ? trained_.adapted->model : *trained_.model),
      weights_(trained_.adapted ? trained_.adapted->weights : trained_.weights),
      step_(model_, weights_, make_optimizer(request_.config.run.train, model_.table, processes_), backend_,
            options_of(request_.config.run.train, model_.table, *task_, processes_)) {
  request_.config.run.model = model_.config;
  start();
}

void Tuner::start() {
  const auto begin = Clock::now();
  DataIdentity identity = task_->identity();
  if (trained_.adapted) identity.base = weights_hash(base_->model());
  if (request_.resume) {
    state_ = resumed_->state;
    check_same_data(state_.data, identity);
    load_checkpoint(last(), model_, weights_, step_.optimizer_state());
  } else {
    state_.history.loss_scale = initial_loss_scale(tensor_dtype(config().dtype));
    // Rows of the vocabulary that the base lacks stay as in a new model.
    init_params(model_.table, weights_, static_cast<uint64_t>(config().seed));
    if (!trained_.adapted) base_->copy_to(weights_);
  }
  step_.set_state(state_of(state_.history, config()));
  const bool shared = processes_.size() > 1;
  const Model* const begun = shared && !trained_.adapted ? &base_->model() : nullptr;
  const std::string begins = shared ? start_of_run(request_.resume, last(), begun) : "";
  if (!trained_.adapted) base_.reset();
  state_.data = identity;
  std::error_code unknown;
  if (!data_elsewhere_) state_.data_folder = std::filesystem::current_path(unknown).string();
  state_.config = run_config_json(request_.config.run).dump();
  state_.tuning = tune_config_json(request_.config).dump();
  require_same_run(processes_, {state_.data, state_.config, backend_.kernels.name, state_.step, begins,
                                tune_config_json(request_.config).dump()});
  saved_step_ = request_.resume ? state_.step : -1;
  start_files();
  task_->begin(model_, backend_, request_.resume);
  state_.setup_seconds += seconds_since(begin);
}

void Tuner::start_files() {
  if (!is_first()) {
    log_ = std::make_unique<RunLog>(facts());
    return;
  }
  require_space(request_.out, 2 * checkpoint_bytes(model_, step_.optimizer_state()),
                "checkpoints in " + request_.out);
  log_ = std::make_unique<RunLog>(request_.out, request_.resume ? std::optional(state_.step) : std::nullopt,
                                  config(), facts());
  if (request_.resume) {
    keep_changes(request_.out, request_.config.run);
  } else {
    write_file_atomic(request_.out + "/finetune.json", tune_config_json(request_.config).dump(2) + "\n");
    write_file_atomic(request_.out + "/config.json", run_config_json(request_.config.run).dump(2) + "\n");
  }
  announce();
}

RunFacts Tuner::facts() const {
  RunFacts facts;
  facts.title = fmt::format("Fine-tuning: {}", request_.config.task);
  facts.subtitle = fmt::format("{}; {} parameters, {} of up to {} tokens", request_.config.model,
                               format_count(model_.table.total()), format_amount(task_->samples(), "sample"),
                               format_thousands(task_->n_ctx()));
  facts.command_line = request_.command_line;
  facts.commands = tune_commands(request_.config, resume_command(), task_->evaluates() ? best() : last(),
                                 request_.command_line);
  facts.nats = task_->is_language_modelling();
  facts.vocab_size = model_.config.vocab_size;
  ReportSection section{.title = "Settings"};
  const nlohmann::json own = used_settings(request_.config), run = run_config_json(request_.config.run);
  for (const nlohmann::json* part : {&own, &run}) {
    for (const auto& [key, value] : part->items()) {
      if (part == &own || reads_training_key(key))
        section.facts.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
    }
  }
  facts.sections.push_back(section);
  if (processes_.size() > 1) facts.processes = [this] { return process_section(process_times_, processes_); };
  return facts;
}

void Tuner::announce() const {
  const TrainConfig& c = config();
  std::string text = task_->describe();
  text += fmt::format("model: {}, {}; {}\n", request_.config.model, parameters_of(model_.table),
                      step_.optimizer().describe());
  const std::string epochs = fmt::format(
      "{:.3g}", static_cast<double>(c.steps * c.batch_size) / static_cast<double>(task_->samples()));
  text += fmt::format("{} of {} x {} tokens: {} {} of {}; evaluation {}\n", format_amount(c.steps, "step"),
                      c.batch_size, task_->n_ctx(), epochs, epochs == "1" ? "epoch" : "epochs",
                      format_amount(task_->samples(), "sample"),
                      task_->evaluates() ? fmt::format("every {}", format_amount(c.eval_every, "step"))
                                         : "none: nothing is held out");
  text += fmt::format("{}; Ctrl-C saves and stops, {} goes on\n",
                      request_.resume
                          ? fmt::format("resuming {} at step {}", request_.out, format_thousands(state_.step))
                          : "out: " + request_.out,
                      resume_command());
  if (resumed_) text += resumed_->reduce_note;
  log_->message(text);
}

BesideModel Tuner::beside() const {
  return {.tokenizer_json = task_->tokenizer().to_json(), .write = [this](const std::string& folder) {
            task_->write_files(folder, model_);
            if (!trained_.adapted) return;
            write_adapter(folder, base_->model(), trained_.adapted->adapter,
                          adapter_settings(request_.config), request_.config.model);
          }};
}

void Tuner::step() {
  const auto begin = Clock::now();
  task_->before_step(state_.step, model_, backend_);
  step_.compute_gradients(inputs_of(config(), state_.step),
                          [this](int64_t first, int64_t rows, const TrainStep::Samples& samples) {
                            task_->fill(state_.step, first, rows, samples);
                          });
  step_.update();
  require_not_halted(step_);
  const StepState& s = step_.state();
  if (s.scaling.overflows > state_.history.loss_scale.overflows)
    log_->message(fmt::format("step {}: skipped, gradients overflow fp16; loss scale now {:g}\n", state_.step,
                              s.scaling.scale));
  state_.history = history_of(s);
  if (step_.is_skipped()) ++state_.skipped;
  ++state_.step;
  state_.tokens += config().batch_size * task_->n_ctx();
  report_step(seconds_since(begin));
}

void Tuner::report_step(double seconds) {
  const StepState& s = step_.state();
  state_.train_seconds += seconds;
  process_times_.seconds += seconds;
  recent_step_seconds_ = recent_step_seconds_ == 0 ? seconds : 0.95 * recent_step_seconds_ + 0.05 * seconds;
  const double tokens_per_s =
      static_cast<double>(config().batch_size * task_->n_ctx()) / recent_step_seconds_;
  unlogged_ = {.step = state_.step,
               .tokens = state_.tokens,
               .loss = s.loss,
               .lr = s.lr,
               .grad_norm = s.norm,
               .tokens_per_s = tokens_per_s,
               .seconds = state_.train_seconds,
               .skipped = state_.skipped};
  if (state_.step == 1 || is_due(config().log_every)) log_newest_step();
  log_->progress({.step = state_.step,
                  .total = config().steps,
                  .loss = s.loss,
                  .val_loss = val_loss_,
                  .lr = s.lr,
                  .grad_norm = s.norm,
                  .tokens_per_s = tokens_per_s,
                  .eta_s = recent_step_seconds_ * static_cast<double>(config().steps - state_.step)});
}

void Tuner::log_newest_step() {
  if (unlogged_ && config().log_every > 0) {
    log_->step(*unlogged_);
    if (const auto metrics = task_->step_metrics(); !metrics.empty()) {
      log_->parts(unlogged_->step, metrics);
      std::string text = fmt::format("step {}:", format_thousands(unlogged_->step));
      for (const auto& [name, value] : metrics)
        text += fmt::format(" {} {:.4g}", name, value);
      log_->message(text + "\n");
    }
  }
  unlogged_.reset();
}

void Tuner::evaluate() {
  const auto begin = Clock::now();
  const AverageInModel average(model_, step_, config().ema > 0 && state_.history.updates > 0);
  const std::optional<TaskScore> score = task_->evaluate(model_, backend_, interrupted_);
  state_.eval_seconds += seconds_since(begin);
  state_.pending = score ? Pending::nothing : Pending::evaluation;
  if (!score) return;
  compare_processes();
  val_loss_ = score->loss;
  log_->evaluation(state_.step, {.val = score->loss, .train = {}});
  std::vector<std::pair<std::string, double>> record;
  for (const auto& [name, value] : score->metrics)
    record.emplace_back("val_" + name, value);
  if (!record.empty()) log_->parts(state_.step, record);
  const bool better = std::isfinite(score->criterion) &&
                      (state_.best_step < 0 || std::pair(score->criterion, score->loss) <
                                                   std::pair(state_.best_val_loss, state_.best_tie_loss));
  state_.stale_evaluations = better ? 0 : state_.stale_evaluations + 1;
  if (better) {
    state_.best_val_loss = score->criterion;
    state_.best_tie_loss = score->loss;
    best_text_ = score->text.substr(0, score->text.find('\n'));
    state_.best_step = state_.step;
    if (is_first()) save_best(*score);
  }
  log_->message(fmt::format("step {}, epoch {:.3g}{}: {}\n", format_thousands(state_.step), epoch(),
                            better ? ", best so far" : "", score->text));
}

void Tuner::save_best(const TaskScore& score) {
  save_model(best(), model_, beside(), BestModel{state_.step, score.criterion});
  if (!score.predictions.empty()) write_file_atomic(request_.out + "/predictions.csv", score.predictions);
}

void Tuner::save() {
  const auto begin = Clock::now();
  step_.require_finite_weights();
  log_->sync();
  state_.peak_bytes = std::max(state_.peak_bytes, peak_resident_bytes());
  save_checkpoint(last(), model_, step_.optimizer_state(), state_, beside(), processes_);
  saved_step_ = state_.step;
  state_.save_seconds += seconds_since(begin);
}

// Before an error ends the run: a step that fails changes no weights. A process alone does so; several might
// no longer be at the same step.
void Tuner::save_what_is_done() {
  if (processes_.size() > 1 || state_.step == 0 || saved_step_ == state_.step) return;
  try {
    save();
  } catch (const Error&) {  // the first error says more
  }
}

void Tuner::after_step() {
  if (task_->evaluates() && is_due(config().eval_every)) evaluate();
  if (is_due(config().save_every)) save();
}

void Tuner::make_steps() {
  if (state_.pending == Pending::evaluation) {
    saved_step_ = -1;
    evaluate();
  }
  const int64_t planned = planned_steps(config());
  while (state_.step < planned && !out_of_patience() && !interrupted_()) {
    step();
    after_step();
    fault_point("finetune.step", state_.step);
  }
  log_newest_step();
  if (saved_step_ != state_.step) save();
}

void Tuner::compare_processes() {
  if (processes_.size() == 1) return;
  process_times_ =
      gather_times(processes_, step_.waited_seconds(), process_times_.seconds,
                   sent_in_step(config(), param_buffer_elements(model_.table), processes_.size()).total());
}

TuneOutcome Tuner::run(const std::function<bool()>& interrupted) {
  if (interrupted) asked_to_stop_ = interrupted;
  if (request_.begins) request_.begins();
  try {
    make_steps();
  } catch (const Error& error) {
    save_what_is_done();
    fail("{}; {}", error.what(),
         saved_step_ < 0 ? "no checkpoint had been saved yet"
                         : fmt::format("the last good checkpoint is {} at step {}", last(), saved_step_));
  }
  compare_processes();
  log_->write_report(state_.train_seconds);
  log_->finish();
  return finish();
}

TuneOutcome Tuner::finish() {
  const bool all = state_.step >= config().steps || out_of_patience();
  const TuneOutcome outcome{
      .steps_done = state_.step,
      .finished = all && state_.pending == Pending::nothing,
      .interrupted = interrupted_(),
      .has_best = state_.best_step >= 0,
      .still_falling = is_still_falling(log_->values(kValLossKey), log_->values(kLossKey))};
  if (!process_times_.waited.empty()) log_->message(process_line(process_times_));
  if (!outcome.finished) {
    log_->message(fmt::format("{} at step {} of {}; continue with: {}\n",
                              outcome.interrupted ? "interrupted" : "stopped", format_thousands(state_.step),
                              format_thousands(config().steps), resume_command()));
    return outcome;
  }
  std::string text = fmt::format("done: {} in {}", format_amount(state_.step, "step"),
                                 format_duration(state_.train_seconds));
  if (state_.step < config().steps)
    text += fmt::format(", ended by --patience after {} without a better one",
                        format_amount(config().patience, "evaluation"));
  if (outcome.has_best)
    text += fmt::format("; best at step {}{}: {}", format_thousands(state_.best_step),
                        best_text_.empty() ? "" : " (" + best_text_ + ")", best());
  log_->message(fmt::format("{}; the last one: {}; report: {}/report.html\n", text, last(), request_.out));
  const std::string diverged = log_->divergence_note(config());
  log_->message(diverged);
  if (outcome.still_falling && diverged.empty())
    log_->message("note: the loss is still falling; more --epochs may help\n");
  return outcome;
}

}  // namespace

TuneOutcome run_tuning(const TuneRequest& request, const std::function<bool()>& interrupted) {
  check_tuning(request.config);
  open_run_folder(*request.processes, request.out, request.config.train(), request.resume, /*again=*/false);
  return Tuner(request).run(interrupted);
}

}  // namespace gpt
