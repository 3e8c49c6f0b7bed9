#include "train/plan_keeper.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "io/json.h"

namespace gpt {
namespace {

constexpr size_t kFewestSteps = 3, kMostSteps = 50;
constexpr double kSeconds = 2;  // of first steps that are enough

// Rates from whole steps. A forward pass, all that an evaluation needs, has a third of a step's operations.
// Samples and checkpoints come later: nothing is known of their time yet.
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

  // How the fact stands to the plan: the difference at the end, the share that is reached before it.
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
  rows.time("time: setting up", t.setup, fact.time.setup);
  rows.time("time: all", t.total(), fact.time.total());
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
  std::string text = fmt::format("Compute-optimal would be {} tokens per parameter, here {} tokens. ",
                                 kOptimalTokensPerParameter, format_count(plan.optimal_tokens()));
  text += plan.rates ? fmt::format("Planned times come from {}. ", plan.rates->source)
                     : "Times are planned after the first steps. ";
  text += fmt::format("A model that knows nothing has the loss ln {}.", plan.subject.config.model.vocab_size);
  if (!plan.forecast) return text;
  text += " The planned validation loss is that of a law fitted to a sweep";
  if (plan.forecast->best_parameters > 0)
    text += fmt::format(
        "; for the same operations the law asks for {} parameters and {} tokens, and gives {:.4f}",
        format_count(plan.forecast->best_parameters), format_count(plan.forecast->best_tokens),
        plan.forecast->best_loss);
  if (!plan.forecast->warning.empty()) text += ". Do not rely on it: " + plan.forecast->warning;
  return text + ".";
}

}  // namespace

PlanKeeper::PlanKeeper(std::string folder, RunPlan plan, std::string& note)
    : path_(std::move(folder) + "/plan.json"), plan_(std::move(plan)) {
  if (!std::filesystem::exists(path_)) return;
  try {
    if (!take_plan(plan_, read_json_file(path_), path_))
      note = fmt::format("{} is for other settings: a new plan is made", path_);
  } catch (const Error& error) {  // a run does not depend on it
    note = error.what();
  }
}

void PlanKeeper::step(double seconds, double setup) {
  if (plan_.rates) return;
  first_steps_.push_back(seconds);
  double sum = 0;
  for (const double s : first_steps_)
    sum += s;
  if (first_steps_.size() < kFewestSteps || (sum < kSeconds && first_steps_.size() < kMostSteps)) return;
  plan_.rates = rates_of(first_steps_, plan_.subject.config.train, setup);
  write();
}

void PlanKeeper::write() const {
  write_file_atomic(path_, run_plan_json(plan_).dump(2) + "\n");
}

ReportSection plan_section(const RunPlan& plan, const RunFact& fact) {
  const bool finished = fact.tokens >= plan.tokens;
  Rows rows{{{"", "plan", finished ? "fact" : "so far", finished ? "difference" : "of the plan"}, {}},
            finished};
  add_amounts(rows, plan, fact);
  const auto planned = static_cast<double>(plan.memory.total()), peak = static_cast<double>(fact.peak_bytes);
  rows.add("peak memory", format_bytes(planned), peak > 0 ? format_bytes(peak) : "",
           peak > 0 ? rows.ratio(planned, peak, true) : "");
  add_times(rows, plan, fact);
  add_losses(rows, plan, fact);
  ReportSection section{.title = "Plan against fact", .text = explanation(plan)};
  section.tables.push_back({"", std::move(rows.table)});
  return section;
}

}  // namespace gpt
