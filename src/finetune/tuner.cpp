#include "finetune/tuner.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/format.h"
#include "chat/model_text.h"
#include "convert/adapter_files.h"
#include "finetune/task.h"
#include "finetune/tune_report.h"
#include "model/model_files.h"
#include "report/run_charts.h"
#include "run/run_model.h"
#include "run/same_run.h"
#include "train/param_groups.h"

namespace gpt {
namespace {

int64_t steps_of_epoch(const Task& task, int64_t batch_size) {
  return (task.samples() + batch_size - 1) / batch_size;
}

// Sets the batch size, the number of epochs, the number of steps, and the evaluation interval (one epoch).
// Settings of the user are not changed. Every epoch contains all examples. If the last batch of the run is
// not full, it also contains examples of one more epoch.
void choose_length(TuneRequest& request, const Task& task) {
  TrainConfig& c = request.config.run.train;
  const int64_t shards = std::lcm(std::max<int64_t>(1, c.grad_shards), request.processes->size());
  const int64_t unit = shards * std::lcm(task.group(), request.micro_given ? c.micro_batch : 1);
  // With the rewards of a single prompt, the gradient of a step would be too noisy.
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
    constexpr double kRounding = 1e-9;  // tolerance for products that should be integers
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
    fail(
        "{} has no tokenizer, but fine-tuning requires one; copy a tokenizer.json into the folder of the "
        "model",
        config.model);
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
  copy_dropout(config.run.model, c);
  task.adapt(c);
  complete(c);
  return c;
}

// Opens the model with which the run starts. If an adapter is trained, the base model stays memory-mapped
// with the dtype and order of its file.
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

// Returns a text such as "1,234 parameters". If some parameters are frozen, the text also contains the number
// of trained parameters.
std::string parameters_of(const ParamTable& table) {
  int64_t trained = 0;
  for (const ParamSpec& spec : table.specs())
    trained += spec.trainable ? spec.size() : 0;
  const std::string all = format_thousands(table.total()) + " parameters";
  return trained == table.total() ? all : fmt::format("{} of {} are trained", format_thousands(trained), all);
}

// Holds the trainable object: either the whole model, or an adapter. With an adapter, the model is frozen and
// memory-mapped from its file.
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
      fail_parameter("lora_rank", "`task` {} cannot train an adapter; leave `lora_rank` out", c.task);
    if (config.vocab_size != base.model().config.vocab_size) {
      fail_parameter(
          "lora_rank",
          "the chat template has {} that {} lacks, and an adapter cannot add rows to the embedding; choose a "
          "`template` whose tokens the model has, or fine-tune the model without `lora_rank` first",
          format_amount(config.vocab_size - base.model().config.vocab_size, "token"), c.model);
    }
    adapted =
        std::make_unique<AdaptedModel>(base.model(), config, adapter_settings(c), std::move(more), device);
    task.adapter = &adapted->adapter;
  }

  std::unique_ptr<AdaptedModel> adapted;
  std::unique_ptr<Model> model;
  ParamBuffer weights;
};

TrainStep::Options options_of(const TrainConfig& config, const ParamTable& table, const Task& task,
                              Communicator& processes) {
  if (config.zero > 2)
    fail_parameter("zero",
                   "expected 0 to 2, because fine-tuning can only shard the optimizer state (1) and the "
                   "gradients (2), found {}",
                   config.zero);
  TrainStep::Options options = step_options_of_run(config, table, task.n_ctx(), task.objective(), processes);
  options.graph.adapter = task.adapter;
  options.graph.packs_per_use = task.adapter != nullptr;
  return options;
}

class Tuning : public RunTask {
 public:
  explicit Tuning(const TuneRequest& request);
  RunParts parts() {
    return {.command = "finetune",
            .config = config_.run,
            .base = run_base_,
            .model = model_,
            .weights = weights_,
            .step = step_,
            .n_ctx = task_->n_ctx(),
            .tuning = tune_config_json(config_).dump()};
  }

  DataIdentity identity() const override;
  void init_weights(const std::function<void(int id)>& filled) override;
  const Model* initial_model() const override { return trained_.adapted ? nullptr : &base_->model(); }
  void weights_ready() override {
    if (!trained_.adapted) base_.reset();
  }
  RunFacts facts(const Run& run) override;
  void start(Run& run) override;
  TrainStep::FillBatch batch(int64_t step) override;
  NamedValues step_metrics() const override { return task_->step_metrics(); }
  std::string step_text(const StepMetrics& step) const override;
  bool evaluates() const override { return task_->evaluates(); }
  std::optional<RunEvaluation> evaluate(Run& run) override;
  std::string evaluation_text(Run& run, const RunEvaluation& evaluation, bool best) override;
  BesideModel beside() const override;
  bool saves_before_error() const override { return true; }
  std::string end_text(const Run& run, const RunOutcome& outcome) override;

 private:
  const TrainConfig& config() const { return config_.train(); }
  const Backend& backend() const { return run_base_.backend; }
  double epochs(int64_t steps) const {
    return static_cast<double>(steps * config().batch_size) / static_cast<double>(task_->samples());
  }

  TuneRequest request_;
  TuneConfig& config_ = request_.config;
  RunBase run_base_;
  std::unique_ptr<LoadedModel> base_;
  std::unique_ptr<Task> task_;
  Trained trained_;
  Model& model_;
  ParamBuffer& weights_;
  TrainStep step_;
  int64_t prepared_step_ = -1;  // step for which the task has prepared samples
  std::string predictions_;     // predictions of the newest evaluation
  std::string best_text_;       // text of the best evaluation in this process
};

Tuning::Tuning(const TuneRequest& request)
    : request_(request),
      run_base_(request, config_.run, tune_config_json(config_).dump()),
      base_(open_base(request)),
      task_(task_of(request_, *base_)),
      trained_(config_, *base_, *task_, request.device.get()),
      model_(trained_.adapted ? trained_.adapted->model : *trained_.model),
      weights_(trained_.adapted ? trained_.adapted->weights : trained_.weights),
      step_(model_, weights_, make_optimizer(config(), model_.table), backend(),
            options_of(config(), model_.table, *task_, *request.processes)) {
  config_.run.model = model_.config;
}

DataIdentity Tuning::identity() const {
  DataIdentity identity = task_->identity();
  if (trained_.adapted) identity.base = weights_hash(base_->model());
  return identity;
}

// If the vocabulary is larger than the vocabulary of the base model, the rows of the additional tokens keep
// their random initialization.
void Tuning::init_weights(const std::function<void(int id)>&) {
  init_params(model_.table, weights_, static_cast<uint64_t>(config().seed));
  if (!trained_.adapted) base_->copy_to(weights_);
}

RunFacts Tuning::facts(const Run& run) {
  RunFacts facts;
  facts.title = fmt::format("Fine-tuning: {}", config_.task);
  facts.subtitle = fmt::format("{}; {} parameters, {} of up to {} tokens", config_.model,
                               format_count(model_.table.total()), format_amount(task_->samples(), "sample"),
                               format_thousands(task_->n_ctx()));
  facts.commands = {use_command_for_report(config_, evaluates() ? run.best() : run.last())};
  facts.nats = task_->is_language_modelling();
  facts.vocab_size = model_.config.vocab_size;
  ReportSection section{.title = "Settings"};
  const nlohmann::json own = used_settings(config_), run_settings = run_config_json(config_.run);
  for (const nlohmann::json* part : {&own, &run_settings}) {
    for (const auto& [key, value] : part->items()) {
      if (part == &own || reads_training_key(key))
        section.facts.push_back({key, value.is_string() ? value.get<std::string>() : value.dump()});
    }
  }
  facts.sections.push_back(section);
  return facts;
}

void Tuning::start(Run& run) {
  const TrainConfig& c = config();
  std::string text = task_->describe();
  text += fmt::format("model: {}, {}; {}\n", config_.model, parameters_of(model_.table),
                      step_.optimizer().describe());
  const std::string all = fmt::format("{:.3g}", epochs(c.steps));
  text += fmt::format("{} of {} x {} tokens: {} {} of {}; evaluation {}\n", format_amount(c.steps, "step"),
                      c.batch_size, task_->n_ctx(), all, all == "1" ? "epoch" : "epochs",
                      format_amount(task_->samples(), "sample"),
                      evaluates() ? fmt::format("every {}", format_amount(c.eval_every, "step"))
                                  : "none: no held-out examples");
  text += fmt::format("{}; Ctrl-C saves and stops, {} continues the run\n",
                      request_.resume ? fmt::format("resuming {} at step {}", request_.out,
                                                    format_thousands(run.state().step))
                                      : "out: " + request_.out,
                      run.resume_command());
  run.log().message(text);
  task_->begin(model_, backend(), request_.resume);
}

BesideModel Tuning::beside() const {
  return {.tokenizer_json = task_->tokenizer().to_json(), .write = [this](const std::string& folder) {
            task_->write_files(folder, model_);
            if (!trained_.adapted) return;
            write_adapter(folder, base_->model(), trained_.adapted->adapter, adapter_settings(config_),
                          config_.model);
          }};
}

TrainStep::FillBatch Tuning::batch(int64_t step) {
  if (step != prepared_step_) task_->before_step(step, model_, backend());
  prepared_step_ = step;
  return [this, step](int64_t first, int64_t rows, const TrainStep::Samples& samples) {
    task_->fill(step, first, rows, samples);
  };
}

std::string Tuning::step_text(const StepMetrics& step) const {
  if (step.more.empty()) return "";
  std::string text = fmt::format("step {}:", format_thousands(step.step));
  for (const auto& [name, value] : step.more)
    text += fmt::format(" {} {:.4g}", name, value);
  return text + "\n";
}

std::optional<RunEvaluation> Tuning::evaluate(Run& run) {
  std::optional<TaskScore> score = task_->evaluate(model_, backend(), run.interrupted());
  if (!score) return std::nullopt;
  predictions_ = std::move(score->predictions);
  RunEvaluation evaluation{.losses = {.val = score->loss, .train = {}},
                           .criterion = score->criterion,
                           .tie = score->loss,
                           .text = std::move(score->text)};
  for (const auto& [name, value] : score->metrics)
    evaluation.metrics.emplace_back("val_" + name, value);
  return evaluation;
}

std::string Tuning::evaluation_text(Run& run, const RunEvaluation& evaluation, bool best) {
  const int64_t step = run.state().step;
  if (best) best_text_ = evaluation.text.substr(0, evaluation.text.find('\n'));
  if (best && run.is_first() && !predictions_.empty())
    write_file_atomic(request_.out + "/predictions.csv", predictions_);
  return fmt::format("step {}, epoch {:.3g}{}: {}\n", format_thousands(step), epochs(step),
                     best ? ", best so far" : "", evaluation.text);
}

std::string Tuning::end_text(const Run& run, const RunOutcome& outcome) {
  const RunState& s = run.state();
  if (!outcome.finished)
    return fmt::format("{} at step {} of {}; continue with: {}\n",
                       outcome.interrupted ? "interrupted" : "stopped", format_thousands(s.step),
                       format_thousands(config().steps), run.resume_command());
  std::string text =
      fmt::format("done: {} in {}", format_amount(s.step, "step"), format_duration(s.train_seconds));
  if (s.step < config().steps)
    text += fmt::format(", ended early by `patience` after {} without a better score",
                        format_amount(config().patience, "evaluation"));
  if (outcome.has_best)
    text += fmt::format("; best model at step {}{}: {}", format_thousands(s.best_step),
                        best_text_.empty() ? "" : " (" + best_text_ + ")", run.best());
  text += fmt::format("; last model: {}; report: {}/report.html\n", run.last(), request_.out);
  const RunLog& log = run.log();
  const std::string diverged = log.divergence_note(config());
  if (!diverged.empty()) return text + diverged;
  if (is_still_falling(log.values(kValLossKey), log.values(kLossKey)))
    text += "note: the loss is still falling; more `epochs` may help\n";
  return text;
}

}  // namespace

RunOutcome run_tuning(const TuneRequest& request, const std::function<bool()>& interrupted) {
  check_tuning(request.config);
  open_run_folder(*request.processes, request.out, request.config.train(), request.resume, /*again=*/false);
  Tuning task(request);
  return Run(request, task, task.parts()).make(interrupted);
}

}  // namespace gpt
