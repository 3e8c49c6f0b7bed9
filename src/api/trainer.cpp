#include "api/context.h"
#include "base/file.h"
#include "data/loader.h"
#include "run/advice.h"
#include "run/checkpoint.h"
#include "run/evaluation.h"
#include "run/plan.h"
#include "run/run_data.h"
#include "train/param_groups.h"
#include "train/step_history.h"
#include "train/step_queue.h"

namespace gptcpp {
namespace {

gpt::RunConfig config_of(const Settings& settings, bool has_text) {
  gpt::Settings inner;
  if (has_text && settings.contains("data"))
    gpt::fail_parameter("data", "cannot be combined with a text; remove the setting or the text");
  const auto tokenizer = settings.find("tokenizer");
  if (tokenizer != settings.end() && tokenizer->second != "byte" && tokenizer->second != "char")
    require_path(tokenizer->second);
  const auto preset = settings.find("preset");
  if (preset != settings.end()) inner.add_preset(preset->second);
  inner.begin_source();
  for (const auto& [key, value] : settings) {
    if (key == "threads" || key == "device")
      throw Error(Code::invalid_argument, key + ": is set by the context; leave it out", key);
    if (key != "preset") inner.add_text(key, value, key);
  }
  inner.forget_preset("vocab_size");  // the tokenizer determines the vocabulary size
  return inner.resolve();
}

// Adds the vocabulary size and the document token of the tokenizer to the model config.
void complete_for(gpt::RunConfig& config, const gpt::RunData& data) {
  config.model.vocab_size = gpt::vocabulary_size(config.model.vocab_size, *data.tokenizer);
  gpt::name_document_token(config.model, data);
  gpt::complete(config.model);
  gpt::check_run(config.train, data.has_val());
}

Claim claim_of(const std::shared_ptr<Context::Impl>& context, gpt::RunConfig& config,
               const gpt::RunData& data) {
  as_argument("settings", [&] { complete_for(config, data); });
  const gpt::PlanSubject subject{.config = config,
                                 .evaluates = data.has_val(),
                                 .kernels = &context->kernels,
                                 .threads = context->threads};
  return {context, gpt::plan_memory(subject).total(), "training"};
}

}  // namespace

struct Trainer::Impl {
  Impl(const Context& c, const Settings& settings, const std::string& text);

  const gpt::TrainConfig& train() const { return config.train; }
  TrainProgress make_step();
  bool has_average() const { return train().ema > 0 && step.state().updates > 0; }

  std::shared_ptr<Context::Impl> context;
  gpt::RunConfig config;
  gpt::RunData data;
  Claim claim;
  gpt::ThreadPool pool;
  gpt::Backend backend;
  gpt::Model model;
  gpt::ParamBuffer weights;
  gpt::BatchLoader loader;
  gpt::TrainStep step;
  gpt::StepQueue queue;
  std::unique_ptr<gpt::Evaluator> evaluator;
  int64_t done = 0;
};

Trainer::Impl::Impl(const Context& c, const Settings& settings, const std::string& text)
    : context((c.impl()->check_cancelled(), c.impl())),
      config(as_argument("settings", [&] { return config_of(settings, !text.empty()); })),
      data(gpt::load_run_data(config.train, config.model.n_ctx, "",
                              text.empty() ? std::nullopt : std::optional(text))),
      claim(claim_of(context, config, data)),
      pool(context->workers(), context->threads),
      backend{pool, context->kernels},
      model(gpt::model_to_train(config)),
      weights(model.table, gpt::DType::f32, "weights", nullptr, /*with_frozen=*/true),
      loader(gpt::loader_of(data, train(), model.config.n_ctx)),
      step(model, weights, gpt::make_optimizer(train(), model.table), backend,
           gpt::step_options(train(), model.table, model.config.n_ctx)),
      queue(step, train(),
            [this](int64_t number) { return gpt::batch_of(loader, train(), number, data.document_end); }) {
  model.weights.assign(weights.views().begin(), weights.views().end());
  gpt::init_params(model.table, weights, static_cast<uint64_t>(train().seed));
  step.set_state(
      gpt::state_of({.loss_scale = gpt::initial_loss_scale(gpt::tensor_dtype(train().dtype))}, train()));
  if (data.has_val())
    evaluator = std::make_unique<gpt::Evaluator>(model, data, train(), gpt::language_modelling(), backend);
  context->log(LogLevel::info, data.notes);
  context->check_cancelled();
}

TrainProgress Trainer::Impl::make_step() {
  queue.make(done, {.before_micro_batch = [this] { context->check_cancelled(); }});
  const gpt::StepState s = *queue.read(/*late=*/0);
  return {.step = ++done,
          .loss = s.loss,
          .gradient_norm = s.norm,
          .learning_rate = s.lr,
          .skipped = s.grad_scale == 0};
}

Trainer::Trainer(const Context& context, const Settings& settings, const std::string& text)
    : impl_(guarded([&] { return std::make_shared<Impl>(context, settings, text); })) {}

int64_t Trainer::run(int64_t n, const std::function<bool(const TrainProgress&)>& on_step) {
  return guarded([&] {
    if (n < 0) gpt::fail_parameter("n", "expected 0 steps or more, found {}", n);
    const int64_t first = impl_->done, last = first + std::min(n, impl_->train().steps - first);
    for (bool goes_on = true; goes_on && impl_->done < last;) {
      const TrainProgress progress = impl_->make_step();
      goes_on = !on_step || call_back(on_step, progress);
    }
    return impl_->done - first;
  });
}

int64_t Trainer::step() const noexcept {
  return impl_->done;
}

std::optional<double> Trainer::validation_loss() {
  return guarded([&]() -> std::optional<double> {
    Impl& t = *impl_;
    if (!t.evaluator) return std::nullopt;
    const gpt::AverageInModel average(t.model, t.step, t.has_average());
    const auto losses = t.evaluator->losses([&] { return t.context->cancelled.load(); });
    t.context->check_cancelled();
    return losses->val;
  });
}

void Trainer::save(const std::string& folder) const {
  guarded([&] {
    if (gpt::path_exists(folder + "/train_state.json"))
      gpt::fail_parameter("folder", "{} contains the checkpoint of a run; choose a different folder", folder);
    const gpt::AverageInModel average(impl_->model, impl_->step, impl_->has_average());
    gpt::save_model(folder, impl_->model, {impl_->data.tokenizer->to_json()});
  });
}

}  // namespace gptcpp
