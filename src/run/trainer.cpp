#include "run/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/fault_point.h"
#include "base/process_memory.h"
#include "convert/format_limits.h"
#include "data/loader.h"
#include "data/preview.h"
#include "distributed/machine_share.h"
#include "eval/evaluate.h"
#include "model/model_files.h"
#include "run/advice.h"
#include "run/announce.h"
#include "run/run_data.h"
#include "run/run_facts.h"
#include "run/run_model.h"
#include "train/schedule.h"
#include "train/step_history.h"

namespace gpt {
namespace {

class Pretraining : public RunTask {
 public:
  explicit Pretraining(const TrainRequest& request);
  RunParts parts() {
    return {.command = "train",
            .config = config_,
            .base = base_,
            .model = model_,
            .weights = weights_,
            .step = step_,
            .n_ctx = model_.config.n_ctx};
  }

  DataIdentity identity() const override { return identity_of(data_); }
  void init_weights(const std::function<void(int id)>& filled) override;
  const Model* initial_model() const override { return init_ ? &init_->model() : nullptr; }
  void weights_ready() override;
  RunFacts facts(const Run& run) override;
  void start(Run& run) override;
  TrainStep::FillBatch batch(int64_t step) override {
    return batch_of(loader_, config(), step, data_.document_end);
  }
  void before_update(bool evaluates) override {
    part_norms_ = evaluates ? gradient_norms(step_) : NamedValues();
  }
  void on_step(const Run& run, const StepState& step, double seconds, Progress& progress) override;
  std::string step_text(const StepMetrics& step) const override;
  bool evaluates() const override { return evaluator_ != nullptr; }
  void before_evaluation() override;
  std::optional<RunEvaluation> evaluate(Run& run) override;
  std::string evaluation_text(Run& run, const RunEvaluation& evaluation, bool best) override;
  bool sample(Run& run) override;
  void check_data(const Run& run, bool saves) override;
  BesideModel beside() const override;
  bool finish(Run& run) override;
  std::string end_text(const Run& run, const RunOutcome& outcome) override;

 private:
  const TrainConfig& config() const { return config_.train; }
  bool is_first() const { return processes_.rank() == 0; }
  std::string start_plan();
  std::string preview(int64_t step);
  std::optional<double> whole_loss(const Run& run, const TokenSpan& text);
  void load_best_model(const std::string& folder);

  const TrainRequest request_;
  Communicator& processes_;
  RunConfig config_;
  RunBase base_;
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
  std::unique_ptr<PlanKeeper> plan_;
  int64_t base_bytes_ = 0;
  double peak_flops_ = 0, flops_per_token_ = 0;
  std::optional<WholeLosses> whole_;  // set on rank 0 if the losses are known
  NamedValues part_norms_;            // norms of the newest step's gradients, if the step is evaluated
  bool updated_ = false;              // true if the newest step changed the weights
  std::optional<double> norm_;        // gradient norm of the newest step
};

Pretraining::Pretraining(const TrainRequest& request)
    : request_(request),
      processes_(*request.processes),
      config_(request.config),
      base_(request, config_),
      init_(request.init_from.empty()
                ? nullptr
                : std::make_unique<LoadedModel>(request.init_from, std::nullopt, MatrixOrder::as_stored)),
      chat_templates_(chat_templates_of_run(request, init_.get())),
      data_(load_run_data(config(), init_ ? init_->model().config.n_ctx : config_.model.n_ctx,
                          tokenizer_folder_of_run(request, init_.get()))),
      data_check_(is_first() ? data_.checksums : std::vector<CheckedBytes>()),
      model_(model_of_run(request, init_.get(), data_)),
      weights_(model_.table, DType::f32, "weights", request.device.get(), /*with_frozen=*/true),
      dtype_(tensor_dtype(config().dtype)),
      step_(model_, weights_, make_optimizer(config(), model_.table), base_.backend,
            step_options_of_run(config(), model_.table, model_.config.n_ctx, *request.objective, processes_)),
      loader_(loader_of(data_, config(), model_.config.n_ctx)) {
  config_.model = model_.config;
  model_.weights.assign(weights_.views().begin(), weights_.views().end());
  model_.source = step_.sharded();
  check_run(config(), data_.has_val());
  if (data_.has_val() && config().eval_every > 0)
    evaluator_ = std::make_unique<Evaluator>(model_, data_, config(), *request.objective, base_.backend,
                                             processes_, step_.sharded());
  fault_point("train.setup");
  base_bytes_ = resident_bytes();
}

void Pretraining::init_weights(const std::function<void(int id)>& filled) {
  if (init_) init_->copy_to(weights_, filled);
  init_params(model_.table, weights_, static_cast<uint64_t>(config().seed),
              init_ ? model_.table.model_count() : 0, filled);
}

void Pretraining::weights_ready() {
  init_.reset();
  flops_per_token_ = ModelCounts(model_.config).training_flops(model_.config.n_ctx);
  peak_flops_ = rates_together(
                    processes_, base_.pool.size(),
                    [this] { return std::vector<double>{measure_peak_flops(base_.backend, dtype_)}; },
                    "measuring matmul throughput")
                    .front();
}

RunFacts Pretraining::facts(const Run& run) {
  RunFacts facts = collect_facts(config_, model_, data_, step_.optimizer().describe(),
                                 machine_description(base_.pool.size(), base_.backend.kernels.name));
  facts.commands = {{"Generate text", "gpt generate " + request_.out + " --prompt \"...\""},
                    {"Evaluate", "gpt eval " + request_.out + " --data FILE"}};
  facts.plan = [this, &run] {
    const RunState& s = run.state();
    return plan_section(plan_->plan(), {.steps = s.step,
                                        .tokens = s.tokens,
                                        .time = {.steps = s.train_seconds,
                                                 .evaluation = s.eval_seconds,
                                                 .sampling = s.sample_seconds,
                                                 .saving = s.save_seconds,
                                                 .setup = s.setup_seconds},
                                        .peak_bytes = run.peak_bytes(),
                                        .first_loss = run.log().first_loss(),
                                        .val_loss = run.log().val_loss()});
  };
  return facts;
}

// Computes the estimates that `gpt plan` shows. Unlike `gpt plan`, the function does not measure the step
// time, because the first steps of the run are measured later. Returns a note for the terminal, or "".
std::string Pretraining::start_plan() {
  RunConfig whole = config_;
  whole.train.stop_after = 0;  // stop_after only pauses the run
  RunPlan plan({.config = whole,
                .evaluates = evaluates(),
                .val_tokens = request_.brief ? 0 : data_.val.size(),
                .kernels = &base_.backend.kernels,
                .threads = base_.pool.size(),
                .processes = processes_.size(),
                .base_bytes = base_bytes_},
               data_.train.size());
  plan.available = base_bytes_ + available_memory();
  plan.peak_flops = peak_flops_;
  if (request_.forecast) plan.forecast = request_.forecast(plan);
  std::string note;
  plan_ = std::make_unique<PlanKeeper>(request_.out, std::move(plan), note);
  plan_->write();
  return note.empty() ? "" : note + "\n";
}

std::string Pretraining::preview(int64_t step) {
  const int64_t rows = std::min(kPreviewRows, config().micro_batch);
  std::vector<int32_t> ids(static_cast<size_t>(rows * model_.config.n_ctx)), targets(ids.size());
  loader_.fill(step, 0, rows, config().batch_size, ids.data(), targets.data());
  return preview_batch(*data_.tokenizer, ids.data(), targets.data(), rows, config().batch_size,
                       model_.config.n_ctx);
}

void Pretraining::start(Run& run) {
  if (!is_first()) return;
  std::string text = start_plan();
  if (request_.brief) return run.log().message(text);
  const RunStart start{.config = config_,
                       .data = data_,
                       .plan = plan_->plan(),
                       .out = request_.out,
                       .resumed_at = request_.resume ? std::optional(run.state().step) : std::nullopt,
                       .resume_command = run.resume_command()};
  text += data_.notes;
  if (request_.verbose)
    text += start_details(start, step_.optimizer().describe()) + preview(run.state().step);
  text += start_lines(start);
  text += start_notes(start, request_.init_from.empty() && !request_.resume);
  run.log().message(text + export_limits(model_.config, data_.tokenizer.get()));
}

void Pretraining::on_step(const Run& run, const StepState& step, double seconds, Progress& progress) {
  updated_ = step.grad_scale != 0;
  norm_ = step.norm;
  if (plan_) plan_->step(seconds, run.state().setup_seconds);
  const double flops = *progress.tokens_per_s * flops_per_token_;
  peak_flops_ = std::max(peak_flops_, flops);  // raises the peak if it was measured too low
  progress.limit_share = flops / peak_flops_;
  progress.floor = data_.floor;
}

std::string Pretraining::step_text(const StepMetrics& step) const {
  if (step.step != 1 || request_.brief) return "";
  return fmt::format("first loss {:.4f}; uniform guessing gives ln {} = {:.4f}\n", step.loss,
                     model_.config.vocab_size, std::log(static_cast<double>(model_.config.vocab_size)));
}

// Computes the update ratios before the weights are replaced by their average.
void Pretraining::before_evaluation() {
  if (!updated_) return;
  const NamedValues ratios = update_ratios(step_);
  part_norms_.insert(part_norms_.end(), ratios.begin(), ratios.end());
}

std::optional<RunEvaluation> Pretraining::evaluate(Run& run) {
  if (updated_) run.log().metrics(run.state().step, part_norms_);
  const std::optional<EvalLosses> losses = evaluator_->losses(run.interrupted());
  if (!losses) return std::nullopt;
  return RunEvaluation{.losses = *losses, .criterion = losses->val};
}

std::string Pretraining::evaluation_text(Run& run, const RunEvaluation& evaluation, bool best) {
  if (request_.brief) return "";
  const int64_t step = run.state().step;
  if (evaluation.losses.train && step == 0)  // shows the gradient norm of the first step
    norm_ = step_.try_gradients(inputs_of(config(), step), batch(step)).norm;
  return evaluation_line(
      evaluation.losses,
      {.step = step, .lr = learning_rate(config(), step), .norm = norm_, .floor = data_.floor, .best = best});
}

BesideModel Pretraining::beside() const {
  return {.tokenizer_json = data_.tokenizer->to_json(),
          .write = [this](const std::string& folder) { write_chat_templates(folder, chat_templates_); }};
}

bool Pretraining::sample(Run& run) {
  const int64_t step = run.state().step;
  const auto text = sample_text(model_, *data_.tokenizer, base_.backend, dtype_,
                                static_cast<uint64_t>(config().seed), step, run.asked_to_stop());
  if (!text) return false;
  run.log().sample(step, *text);
  run.log().model_text(fmt::format("--- sample at step {} ---\n{}\n---\n", step, *text));
  return true;
}

// Ends the run if the data has changed. This prevents a model that was trained on changed data from replacing
// the checkpoint.
void Pretraining::check_data(const Run& run, bool saves) {
  if (!is_first()) return;
  constexpr double kLastWait = 10;  // seconds; a short run may end before all of its data is checked
  const int64_t step = run.state().step;
  const bool last = step >= config().steps || step == config().stop_after;
  try {
    data_check_.finish(last ? kLastWait : 0);
    if (saves) data_check_.require_unchanged();
  } catch (const Error& error) {
    fail_because(error, "training stopped at step {}: {}", step, error.what());
  }
}

// Returns nothing if the evaluation was interrupted.
std::optional<double> Pretraining::whole_loss(const Run& run, const TokenSpan& text) {
  EvalOptions options{.dtype = dtype_, .processes = &processes_, .stop = run.interrupted()};
  if (step_.sharded() != nullptr) options.idle = [this] { step_.sharded()->walk(); };
  const EvalResult result = gpt::evaluate(model_, text, options, base_.backend);
  return result.stopped ? std::nullopt : std::optional(result.loss());
}

// Computes the losses that `gpt eval` computes for last/ and best/. These losses are computed only once per
// run. If the run is interrupted before the losses are complete, the resumed run computes them.
bool Pretraining::finish(Run& run) {
  if (!evaluator_ || request_.brief || request_.objective != &language_modelling() || !run.is_complete())
    return true;
  whole_ = run.log().whole_losses(run.state().step);
  if (of_first(processes_, whole_.has_value(), "checking for the final evaluation")) return true;
  evaluator_.reset();  // frees its memory for the evaluation
  WholeLosses losses{.all = data_.val.size() - 1};
  losses.tokens =
      whole_eval_tokens(data_.val.size(), run.state().step * config().batch_size * model_.config.n_ctx);
  const TokenSpan text = data_.val.part(0, losses.tokens + 1);
  const auto last = whole_loss(run, text);
  if (!last) return false;
  losses.last = *last;
  const std::optional<BestModel>& best = run.best_model();
  const bool has_other = best && (best->step != run.state().step || config().ema > 0);
  if (of_first(processes_, has_other, "checking for a best model")) {
    load_best_model(run.best());
    losses.best = whole_loss(run, text);
    if (!losses.best) return false;
  }
  whole_ = losses;
  run.log().whole_evaluation(run.state().step, losses);
  return true;
}

// Loads the best model into the weights of the run. The newest weights are no longer needed, because they are
// saved in last/.
void Pretraining::load_best_model(const std::string& folder) {
  if (step_.sharded() != nullptr) step_.sharded()->drop();  // marks all layers as not gathered
  const LoadedModel loaded(folder, std::nullopt, MatrixOrder::as_stored);
  loaded.copy_to(weights_, [&](int id) {
    model_.packed->weights_changed(id);
    if (step_.sharded() != nullptr) step_.sharded()->drop(id);
  });
}

std::string Pretraining::end_text(const Run& run, const RunOutcome& outcome) {
  const RunState& s = run.state();
  // If an earlier process was killed, best/ may contain the model of a lost step. This model may be better
  // than the best model that this run has recorded (Run::evaluate).
  const std::optional<BestModel>& best = run.best_model();
  const bool lost = best && (s.best_step < 0 || best->val_loss < s.best_val_loss);
  return end_lines({.step = s.step,
                    .steps = config().steps,
                    .finished = outcome.finished,
                    .interrupted = outcome.interrupted,
                    .seconds = s.train_seconds,
                    .val_loss = run.log().val_loss(),
                    .val_step = run.log().val_step().value_or(-1),
                    .best_val_loss = lost ? best->val_loss : s.best_val_loss,
                    .best_step = lost ? best->step : s.best_step,
                    .whole = whole_,
                    .dtype = dtype_,
                    .patience = config().patience,
                    .out = request_.out,
                    .resume_command = run.resume_command()}) +
         run.log().divergence_note(config());
}

}  // namespace

RunOutcome run_training(const TrainRequest& request, const std::function<bool()>& interrupted) {
  open_run_folder(*request.processes, request.out, request.config.train, request.resume, request.repeats);
  Pretraining task(request);
  return Run(request, task, task.parts()).make(interrupted);
}

}  // namespace gpt
