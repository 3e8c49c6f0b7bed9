#include "plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/format.h"
#include "report/table.h"
#include "train/rhythm.h"
#include "train/run_facts.h"

namespace gpt {
namespace {

using Part = std::pair<const char*, int64_t>;
std::vector<Part> memory_parts(const RunMemory& m) {
  return {{"program, text, tokens", m.base},
          {"weights", m.weights},
          {"gradients", m.gradients},
          {"moments", m.moments},
          {"weights as products read", m.packed},
          {"activations", m.activations},
          {"evaluation", m.evaluation},
          {"sampling", m.sampling}};
}

std::string amount_text(const RunPlan& r) {
  const TrainConfig& c = r.subject.config.train;
  TextTable table;
  table.rows = {
      {"parameters", format_thousands(r.counts.total)},
      {"tokens", format_thousands(r.tokens),
       fmt::format("{} of {} x {}", format_amount(planned_steps(c), "step"), format_thousands(c.batch_size),
                   format_thousands(r.subject.config.model.n_ctx))},
      {"tokens per parameter", format_passes(r.tokens_per_parameter()),
       fmt::format("compute-optimal: {}, here {}", kOptimalTokensPerParameter,
                   format_amount(r.optimal_steps(), "step"))},
      {"times through the text",
       format_passes(static_cast<double>(r.tokens) / static_cast<double>(r.train_tokens)),
       fmt::format("of {}", format_amount(r.train_tokens, "token"))},
      {"FLOPs", format_count(r.flops()),
       fmt::format("{} a token", format_count(r.counts.training_flops(r.subject.config.model.n_ctx)))}};
  if (r.subject.evaluates) {
    table.rows.push_back(
        {"evaluations", format_thousands(evaluations(c, planned_steps(c))),
         fmt::format("every {}, {}{}: {} of the run", format_amount(c.eval_every, "step"),
                     format_amount(c.eval_batches, "batch", "batches"), c.eval_train ? " of both texts" : "",
                     format_percent(evaluation_share(c)))});
  }
  if (c.patience > 0)
    table.rows.push_back({"patience", format_thousands(c.patience),
                          "evaluations without a better validation loss end the run early"});
  return format_table(table);
}

std::string memory_text(const RunPlan& r) {
  TextTable table{.columns = {"peak memory", "bytes"}};
  for (const auto& [name, n] : memory_parts(r.memory)) {
    if (n > 0) table.rows.push_back({name, format_bytes(n)});
  }
  table.rows.push_back({"all", format_bytes(r.memory.total())});
  table.rows.push_back({"available", format_bytes(r.available)});
  std::string text = format_table(table);
  if (r.fits()) return text;
  text += fmt::format("it does not fit: {} too much\n", format_bytes(r.memory.total() - r.available));
  if (r.fits_with.empty()) {
    const std::vector<Part> parts = memory_parts(r.memory);
    const auto largest = std::ranges::max_element(parts, {}, &Part::second);
    return text +
           fmt::format(
               "no micro-batch fits, not with --recompute and --dtype bf16 either; most goes to {} ({}): "
               "take a smaller model or context\n",
               largest->first, format_bytes(largest->second));
  }
  TextTable fits{.columns = {"it fits with", "peak memory"}};
  for (const RunFit& fit : r.fits_with)
    fits.rows.push_back({fit.flags, format_bytes(fit.bytes)});
  return text + "\n" + format_table(fits);
}

std::string time_text(const RunPlan& r) {
  const std::optional<RunTime> time = r.time();
  if (!time) {
    return fmt::format("time: not measured; at the {:.0f} GFLOP/s of products no less than {}\n",
                       r.peak_flops / 1e9, format_duration(r.flops() / r.peak_flops));
  }
  const RunTime& t = *time;
  TextTable table{.columns = {"time", "", ""}};
  const auto share = [&](double seconds) { return format_percent(seconds / t.total()); };
  table.rows.push_back({"steps", format_duration(t.steps),
                        fmt::format("{:.4g} s each, {} tokens/s, {} of the rate of products", t.step,
                                    format_rate(static_cast<double>(r.step_tokens) / t.step),
                                    format_percent(r.flops() / t.steps / r.peak_flops))});
  for (const auto& [name, seconds] : {std::pair{"evaluation", t.evaluation},
                                      {"sampling", t.sampling},
                                      {"saving", t.saving},
                                      {"setting up", t.setup}}) {
    if (seconds > 0) table.rows.push_back({name, format_duration(seconds), share(seconds)});
  }
  table.rows.push_back({"all", format_duration(t.total())});
  return format_table(table);
}

std::string loss_text(const RunPlan& r) {
  if (!r.forecast) return "";
  const LossForecast& f = *r.forecast;
  TextTable table{.columns = {"validation loss by the fit", "", ""}};
  table.rows.push_back({"this run", fmt::format("{:.4f}", f.loss), "nats per token"});
  if (f.best_parameters > 0) {
    table.rows.push_back(
        {"best for as many FLOPs", fmt::format("{:.4f}", f.best_loss),
         fmt::format("{} parameters, {} tokens; nearest: {}", format_count(f.best_parameters),
                     format_count(f.best_tokens), f.best_flags)});
  }
  std::string text = format_table(table) + "for the text and the tokenizer of the sweep\n";
  if (!f.warning.empty()) text += "warning: do not rely on these losses: " + f.warning + "\n";
  return text + "\n";
}

}  // namespace

std::string plan_text(const RunPlan& r, const std::vector<std::string>& advice) {
  std::string text = amount_text(r) + "\n" + memory_text(r) + "\n" + time_text(r) + "\n" + loss_text(r) +
                     machine_description(r.subject.threads, isa_name(r.subject.kernels->isa)) + "\n";
  for (const std::string& line : advice)
    text += (&line == &advice.front() ? "\n" : "") + ("note: " + line) + "\n";
  return text;
}

}  // namespace gpt
