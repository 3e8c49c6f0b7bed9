#include "train/run_plan.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "train/rhythm.h"
#include "train/run_facts.h"

namespace gpt {
namespace {

using nlohmann::json;

json memory_json(const RunPlan& p) {
  const RunMemory& m = p.memory;
  return {{"base", m.base},
          {"weights", m.weights},
          {"gradients", m.gradients},
          {"moments", m.moments},
          {"packed", m.packed},
          {"activations", m.activations},
          {"evaluation", m.evaluation},
          {"sampling", m.sampling},
          {"total", m.total()},
          {"available", p.available},
          {"fits", p.fits()}};
}

json evaluation_json(const RunPlan& p) {
  const TrainConfig& c = p.subject.config.train;
  if (!p.subject.evaluates) return {{"times", 0}, {"share", 0.0}};
  return {{"every", c.eval_every},
          {"times", evaluations(c, planned_steps(c))},
          {"batches", c.eval_batches},
          {"share", evaluation_share(c)}};
}

template <class Rates, class F>
void visit_rates(Rates& r, F&& visit) {
  visit("micro_batch", r.micro_batch);
  visit("accumulated", r.accumulated);
  visit("update", r.update);
  visit("first", r.first);
  visit("evaluation", r.evaluation);
  visit("sample", r.sample);
  visit("bytes_per_second_saved", r.bytes_per_second);
  visit("file", r.file);
  visit("setup", r.setup);
}

template <class Forecast, class F>
void visit_forecast(Forecast& f, F&& visit) {
  visit("parameters", f.parameters);
  visit("tokens", f.tokens);
  visit("predicted", f.loss);
  visit("best_parameters", f.best_parameters);
  visit("best_tokens", f.best_tokens);
  visit("best_loss", f.best_loss);
}

void add_times(json& out, const RunPlan& p) {
  const RunTime t = *p.time();
  out["time_seconds"] = {{"step", t.step},         {"steps", t.steps},   {"evaluation", t.evaluation},
                         {"sampling", t.sampling}, {"saving", t.saving}, {"setup", t.setup},
                         {"total", t.total()}};
  json& rates = out["rates"];
  visit_rates(*p.rates, [&](const char* key, double value) { rates[key] = value; });
  rates["source"] = p.rates->source;
}

void add_forecast(json& out, const LossForecast& f) {
  json& loss = out["loss"];
  visit_forecast(f, [&](const char* key, double value) { loss[key] = value; });
  loss["best_flags"] = f.best_flags;
  loss["warning"] = f.warning;
}

double number(const json& object, const char* key, const std::string& source) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || !std::isfinite(found->get<double>()) ||
      found->get<double>() < 0)
    fail("{}: expected a plan with a number \"{}\" of at least 0; delete the file to have it made anew",
         source, key);
  return found->get<double>();
}

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Keys that an older version did not know keep their defaults. stop_after and patience say where to end, not
// what the run is.
json without_end(const json& config) {
  json all = run_config_json(RunConfig{});
  all.update(config);
  all.erase("stop_after");
  all.erase("patience");
  return all;
}

}  // namespace

RunPlan::RunPlan(const PlanSubject& s, int64_t n_train_tokens)
    : subject(s),
      counts(s.config.model),
      step_tokens(s.config.train.batch_size * s.config.model.n_ctx),
      train_tokens(n_train_tokens),
      memory(plan_memory(s)) {
  tokens = planned_steps(s.config.train) * step_tokens;
}

double RunPlan::tokens_per_parameter() const {
  return static_cast<double>(tokens) / static_cast<double>(counts.total);
}

double RunPlan::flops() const {
  return static_cast<double>(tokens) * counts.training_flops(subject.config.model.n_ctx);
}

std::optional<RunTime> RunPlan::time() const {
  if (!rates) return std::nullopt;
  return plan_time(subject, *rates, counts.total);
}

json run_plan_json(const RunPlan& p) {
  json out = {{"parameters", p.counts.total},
              {"tokens", p.tokens},
              {"tokens_per_parameter", p.tokens_per_parameter()},
              {"compute_optimal",
               {{"tokens_per_parameter", kOptimalTokensPerParameter},
                {"tokens", p.optimal_tokens()},
                {"steps", p.optimal_steps()}}},
              {"train_tokens", p.train_tokens},
              {"epochs", static_cast<double>(p.tokens) / static_cast<double>(p.train_tokens)},
              {"flops", p.flops()},
              {"evaluation", evaluation_json(p)},
              {"memory_bytes", memory_json(p)},
              {"fits_with", json::array()},
              {"peak_flops_per_second", p.peak_flops},
              {"machine", machine_description(p.subject.threads, isa_name(p.subject.kernels->isa))},
              {"config", run_config_json(p.subject.config)}};
  for (const RunFit& fit : p.fits_with) {
    out["fits_with"].push_back({{"flags", fit.flags},
                                {"dtype", dtype_name(tensor_dtype(fit.dtype))},
                                {"micro_batch", fit.micro_batch},
                                {"recompute", fit.recompute},
                                {"bytes", fit.bytes}});
  }
  if (p.rates) add_times(out, p);
  if (p.forecast) add_forecast(out, *p.forecast);
  return out;
}

bool take_plan(RunPlan& plan, const json& written, const std::string& source) {
  if (!written.is_object() || !written.contains("config") || !written["config"].is_object())
    fail("{}: expected a plan with an object \"config\"; delete the file to have it made anew", source);
  if (without_end(written["config"]) != without_end(run_config_json(plan.subject.config))) return false;
  if (!plan.rates && written.contains("rates")) {
    RunRates rates;
    visit_rates(rates,
                [&](const char* key, double& value) { value = number(written["rates"], key, source); });
    rates.source = text(written["rates"], "source");
    plan.rates = rates;
  }
  if (!plan.forecast && written.contains("loss")) {
    LossForecast forecast;
    visit_forecast(forecast,
                   [&](const char* key, double& value) { value = number(written["loss"], key, source); });
    forecast.best_flags = text(written["loss"], "best_flags");
    forecast.warning = text(written["loss"], "warning");
    if (forecast.tokens == static_cast<double>(plan.tokens)) plan.forecast = forecast;
  }
  return true;
}

}  // namespace gpt
