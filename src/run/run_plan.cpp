#include "run/run_plan.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/ranges.h"
#include "run/run_facts.h"
#include "train/schedule.h"

namespace gpt {
namespace {

using nlohmann::json;

json memory_json(const RunPlan& p) {
  json out = {{"total", p.memory.total()}, {"available", p.available}, {"fits", p.fits()}};
  for (const RunMemory::Part& part : p.memory.parts())
    out[part.key] = part.bytes;
  return out;
}

json adapter_json(const RunPlan& p) {
  const AdapterPlan& a = *p.adapter;
  json out = {
      {"rank", a.rank}, {"parameters", a.parameters}, {"memory_bytes", {{"total", a.memory.total()}}}};
  for (const RunMemory::Part& part : a.memory.parts())
    out["memory_bytes"][part.key] = part.bytes;
  if (a.step > 0) out["step_seconds"] = a.step;
  return out;
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
  visit("source", r.source);
}

template <class Forecast, class F>
void visit_forecast(Forecast& f, F&& visit) {
  visit("parameters", f.parameters);
  visit("tokens", f.tokens);
  visit("predicted", f.loss);
  visit("best_parameters", f.best_parameters);
  visit("best_tokens", f.best_tokens);
  visit("best_loss", f.best_loss);
  visit("best_flags", f.best_flags);
  visit("warning", f.warning);
}

void add_times(json& out, const RunPlan& p) {
  const RunTime t = *p.time();
  out["time_seconds"] = {{"step", t.step},         {"steps", t.steps},   {"evaluation", t.evaluation},
                         {"sampling", t.sampling}, {"saving", t.saving}, {"setup", t.setup},
                         {"total", t.total()}};
  visit_rates(*p.rates, [&](const char* key, const auto& value) { out["rates"][key] = value; });
}

void take(const json& object, const char* key, const std::string& source, double& number) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || !std::isfinite(found->get<double>()) ||
      found->get<double>() < 0)
    fail("{}: expected a plan with a number \"{}\" of at least 0; delete the file to create a new plan",
         source, key);
  found->get_to(number);
}

void take(const json& object, const char* key, const std::string&, std::string& text) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_string()) found->get_to(text);
}

// Fills in default values for keys that older versions did not write. Removes stop_after and patience,
// because they only determine when a run ends.
json without_end(const json& config) {
  json all = run_config_json(RunConfig{});
  all.update(config);
  all.erase("stop_after");
  all.erase("patience");
  return all;
}

constexpr size_t kFewestSteps = 3, kMostSteps = 50;
constexpr double kSeconds = 2;  // the first steps are measured for at least this many seconds

// Computes the rates from the measured durations of the first steps. An evaluation only needs the forward
// pass, which has a third of the operations of a step. The run has not generated samples or saved checkpoints
// yet, so their times are unknown.
RunRates rates_of(const std::vector<double>& steps, const TrainConfig& c, double setup) {
  const double step = typical_seconds({steps.begin() + 1, steps.end()});
  const double micro = step * static_cast<double>(c.micro_batch) / static_cast<double>(c.batch_size);
  RunRates rates{.micro_batch = micro,
                 .accumulated = micro,
                 .first = std::max(0.0, steps[0] - step),
                 .evaluation = micro / 3,
                 .setup = setup};
  rates.source = fmt::format("steps 2 to {} of the run", steps.size());
  return rates;
}

struct Rows {
  TextTable table;
  bool finished;

  // Compares an actual value with the plan. Values that grow during the run are shown as a fraction of the
  // plan until the run is finished. All other values are shown as a relative difference.
  std::string ratio(double plan, double fact, bool grows) const {
    if (!(plan > 0) || !std::isfinite(fact)) return "";
    if (grows && !finished) return format_percent(fact / plan);
    return fmt::format("{:+.1f} %", 100 * (fact / plan - 1));
  }
  void add(const char* what, std::string plan, std::string fact, std::string ratio) {
    table.rows.push_back({what, std::move(plan), std::move(fact), std::move(ratio)});
  }
  void time(const char* what, double plan, double fact) {
    if (plan <= 0 && fact <= 0) return;
    add(what, plan > 0 ? format_duration(plan) : "", format_duration(fact), ratio(plan, fact, true));
  }
};

void add_amounts(Rows& rows, const RunPlan& plan, const RunFact& fact) {
  const auto tokens = static_cast<double>(fact.tokens), parameters = static_cast<double>(plan.counts.total);
  const std::string done = rows.ratio(static_cast<double>(plan.tokens), tokens, true);
  const double flops = tokens * plan.counts.training_flops(plan.subject.config.model.n_ctx);
  const std::string count = format_thousands(plan.counts.total);
  rows.add("parameters", count, count, "");
  rows.add("tokens", format_thousands(plan.tokens), format_thousands(fact.tokens), done);
  rows.add("tokens per parameter", fmt::format("{:.3g}", plan.tokens_per_parameter()),
           fmt::format("{:.3g}", tokens / parameters), done);
  rows.add("floating-point operations", format_count(plan.flops()), format_count(flops), done);
}

void add_times(Rows& rows, const RunPlan& plan, const RunFact& fact) {
  const RunTime t = plan.time().value_or(RunTime{});
  rows.time("time: steps", t.steps, fact.time.steps);
  rows.time("time: evaluations", t.evaluation, fact.time.evaluation);
  rows.time("time: samples", t.sampling, fact.time.sampling);
  rows.time("time: checkpoints", t.saving, fact.time.saving);
  rows.time("time: setup", t.setup, fact.time.setup);
  rows.time("time: total", t.total(), fact.time.total());
}

void add_losses(Rows& rows, const RunPlan& plan, const RunFact& fact) {
  const auto loss = [](double value) { return fmt::format("{:.4f}", value); };
  const double guess = std::log(static_cast<double>(plan.subject.config.model.vocab_size));
  if (fact.first_loss)
    rows.add("first training loss", loss(guess), loss(*fact.first_loss),
             rows.ratio(guess, *fact.first_loss, false));
  if (!plan.forecast) return;
  const double forecast = plan.forecast->loss;
  rows.add("validation loss", loss(forecast), fact.val_loss ? loss(*fact.val_loss) : "",
           fact.val_loss ? rows.ratio(forecast, *fact.val_loss, false) : "");
}

std::string explanation(const RunPlan& plan) {
  std::string text =
      fmt::format("A compute-optimal run trains this model on {} tokens per parameter, {} tokens in total. ",
                  kOptimalTokensPerParameter, format_count(plan.optimal_tokens()));
  text += plan.rates ? fmt::format("Estimated times come from {}. ", plan.rates->source)
                     : "Times are estimated after the first steps. ";
  text += fmt::format("Uniform guessing gives the loss ln {}.", plan.subject.config.model.vocab_size);
  if (!plan.forecast) return text;
  text += " The estimated validation loss comes from a law fitted to a sweep";
  if (plan.forecast->best_parameters > 0)
    text += fmt::format(
        "; with the same FLOPs, the law predicts the lowest loss at {} parameters and {} tokens: {:.4f}",
        format_count(plan.forecast->best_parameters), format_count(plan.forecast->best_tokens),
        plan.forecast->best_loss);
  if (!plan.forecast->warning.empty()) text += ". The estimate is unreliable: " + plan.forecast->warning;
  return text + ".";
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
  const auto fit_json = [](const RunFit& fit) {
    return json{{"flags", fit.flags},
                {"dtype", dtype_name(tensor_dtype(fit.dtype))},
                {"micro_batch", fit.micro_batch},
                {"recompute", fit.recompute},
                {"bytes", fit.bytes}};
  };
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
              {"optimizer",
               {{"flops_per_step", optimizer_flops(p.subject.config)},
                {"share_of_step", optimizer_share(p.subject.config)}}},
              {"evaluation", evaluation_json(p)},
              {"memory_bytes", memory_json(p)},
              {"fits_with", transformed(p.fits_with, fit_json)},
              {"peak_flops_per_second", p.peak_flops},
              {"machine", machine_description(p.subject.threads, p.subject.kernels->name)},
              {"config", run_config_json(p.subject.config)}};
  if (p.rates) add_times(out, p);
  if (p.adapter) out["adapter"] = adapter_json(p);
  if (p.subject.processes > 1) {
    out["processes"] = {{"ranks", p.subject.processes},
                        {"link_bytes_per_second", p.subject.link_bytes_per_second}};
    if (p.rates) {
      const ExchangePlan exchange = plan_exchange(p.subject, *p.rates);
      out["processes"].update({{"sent_bytes_per_step", exchange.sent_bytes},
                               {"message_seconds_per_step", exchange.seconds},
                               {"exposed_seconds_per_step", exchange.exposed},
                               {"waiting_seconds_per_step", exchange.waiting}});
    }
  }
  if (p.forecast)
    visit_forecast(*p.forecast, [&](const char* key, const auto& value) { out["loss"][key] = value; });
  return out;
}

bool take_plan(RunPlan& plan, const json& written, const std::string& source) {
  if (!written.is_object() || !written.contains("config") || !written["config"].is_object())
    fail("{}: expected a plan with an object \"config\"; delete the file to create a new plan", source);
  if (without_end(written["config"]) != without_end(run_config_json(plan.subject.config))) return false;
  if (!plan.rates && written.contains("rates")) {
    RunRates rates;
    visit_rates(rates, [&](const char* key, auto& value) { take(written["rates"], key, source, value); });
    plan.rates = rates;
  }
  if (!plan.forecast && written.contains("loss")) {
    LossForecast forecast;
    visit_forecast(forecast,
                   [&](const char* key, auto& value) { take(written["loss"], key, source, value); });
    if (forecast.tokens == static_cast<double>(plan.tokens)) plan.forecast = forecast;
  }
  return true;
}

PlanKeeper::PlanKeeper(std::string folder, RunPlan plan, std::string& note)
    : path_(std::move(folder) + "/plan.json"), plan_(std::move(plan)) {
  if (!std::filesystem::exists(path_)) return;
  try {
    if (!take_plan(plan_, read_json_file(path_), path_))
      note = fmt::format("{} was computed for different settings and is replaced by a new plan", path_);
  } catch (const Error& error) {  // a run does not depend on its plan
    note = error.what();
  }
}

void PlanKeeper::step(double seconds, double setup) {
  if (plan_.rates) return;
  first_steps_.push_back(seconds);
  const double sum = sum_of(first_steps_);
  if (first_steps_.size() < kFewestSteps || (sum < kSeconds && first_steps_.size() < kMostSteps)) return;
  plan_.rates = rates_of(first_steps_, plan_.subject.config.train, setup);
  write();
}

void PlanKeeper::write() const {
  write_file_atomic(path_, run_plan_json(plan_).dump(2) + "\n");
}

ReportSection plan_section(const RunPlan& plan, const RunFact& fact) {
  const bool finished = fact.tokens >= plan.tokens;
  Rows rows{
      {{"", "estimate", finished ? "actual" : "so far", finished ? "difference" : "of the estimate"}, {}},
      finished};
  add_amounts(rows, plan, fact);
  const auto planned = static_cast<double>(plan.memory.total()), peak = static_cast<double>(fact.peak_bytes);
  rows.add("peak memory", format_bytes(planned), peak > 0 ? format_bytes(peak) : "",
           peak > 0 ? rows.ratio(planned, peak, true) : "");
  add_times(rows, plan, fact);
  add_losses(rows, plan, fact);
  ReportSection section{.title = "Estimate vs. actual", .text = explanation(plan)};
  section.tables.push_back({"", std::move(rows.table)});
  return section;
}

}  // namespace gpt
