#include "plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/format.h"
#include "report/table.h"
#include "train/run_facts.h"

namespace gpt {
namespace {

using nlohmann::json;

std::string bytes(int64_t n) {
  return format_bytes(static_cast<double>(n));
}

int64_t steps_of(const TrainConfig& c) {
  return c.stop_after > 0 ? std::min(c.stop_after, c.steps) : c.steps;
}

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

std::string amount_text(const PlanReport& r) {
  const TrainConfig& c = r.subject.config.train;
  TextTable table{.columns = {}, .rows = {}};
  table.rows = {
      {"parameters", format_thousands(r.counts.total)},
      {"tokens", format_thousands(r.tokens),
       fmt::format("{} steps of {} x {}", format_thousands(steps_of(c)), c.batch_size,
                   r.subject.config.model.n_ctx)},
      {"tokens per parameter", fmt::format("{:.3g}", r.tokens_per_parameter()),
       fmt::format("compute-optimal: {}, here {} steps", kOptimalTokensPerParameter,
                   format_thousands(r.optimal_steps()))},
      {"times through the text",
       fmt::format("{:.3g}", static_cast<double>(r.tokens) / static_cast<double>(r.train_tokens)),
       fmt::format("of {} tokens", format_thousands(r.train_tokens))},
      {"FLOPs", format_count(r.flops()),
       fmt::format("{} a token", format_count(r.counts.training_flops(r.subject.config.model.n_ctx)))}};
  return format_table(table);
}

std::string memory_text(const PlanReport& r) {
  TextTable table{.columns = {"peak memory", "bytes"}, .rows = {}};
  for (const auto& [name, n] : memory_parts(r.memory)) {
    if (n > 0) table.rows.push_back({name, bytes(n)});
  }
  table.rows.push_back({"all", bytes(r.memory.total())});
  table.rows.push_back({"available", bytes(r.available)});
  std::string text = format_table(table);
  if (r.fits()) return text;
  text += fmt::format("it does not fit: {} too much\n", bytes(r.memory.total() - r.available));
  if (r.fits_with.empty()) {
    const std::vector<Part> parts = memory_parts(r.memory);
    const auto largest = std::max_element(parts.begin(), parts.end(),
                                          [](const Part& a, const Part& b) { return a.second < b.second; });
    return text +
           fmt::format(
               "no micro-batch fits, not with --recompute and --dtype bf16 either; most goes to {} ({}): "
               "take a smaller model or context\n",
               largest->first, bytes(largest->second));
  }
  TextTable fits{.columns = {"it fits with", "peak memory"}, .rows = {}};
  for (const RunFit& fit : r.fits_with)
    fits.rows.push_back({fit.flags, bytes(fit.bytes)});
  return text + "\n" + format_table(fits);
}

std::string time_text(const PlanReport& r) {
  if (!r.time) {
    return fmt::format("time: not measured; at the {:.0f} GFLOP/s of products no less than {}\n",
                       r.peak_flops / 1e9, format_duration(r.flops() / r.peak_flops));
  }
  const RunTime& t = *r.time;
  TextTable table{.columns = {"time", "", ""}, .rows = {}};
  table.rows.push_back({"steps", format_duration(t.steps),
                        fmt::format("{:.4g} s each, {:.0f} tokens/s, {} of the rate of products", t.step,
                                    static_cast<double>(r.step_tokens) / t.step,
                                    format_percent(r.flops() / t.steps / r.peak_flops))});
  for (const auto& [name, seconds] : {std::pair{"evaluation", t.evaluation},
                                      {"sampling", t.sampling},
                                      {"saving", t.saving},
                                      {"setting up", t.setup}}) {
    if (seconds > 0) table.rows.push_back({name, format_duration(seconds)});
  }
  table.rows.push_back({"all", format_duration(t.total())});
  return format_table(table);
}

json memory_json(const PlanReport& r) {
  const RunMemory& m = r.memory;
  return {{"base", m.base},
          {"weights", m.weights},
          {"gradients", m.gradients},
          {"moments", m.moments},
          {"packed", m.packed},
          {"activations", m.activations},
          {"evaluation", m.evaluation},
          {"sampling", m.sampling},
          {"total", m.total()},
          {"available", r.available},
          {"fits", r.fits()}};
}

}  // namespace

PlanReport::PlanReport(const PlanSubject& s, int64_t train_tokens)
    : subject(s),
      counts(s.config.model),
      step_tokens(s.config.train.batch_size * s.config.model.n_ctx),
      train_tokens(train_tokens),
      memory(plan_memory(s)) {
  tokens = steps_of(s.config.train) * step_tokens;
}

double PlanReport::tokens_per_parameter() const {
  return static_cast<double>(tokens) / static_cast<double>(counts.total);
}

double PlanReport::flops() const {
  return static_cast<double>(tokens) * counts.training_flops(subject.config.model.n_ctx);
}

std::string plan_text(const PlanReport& r) {
  return amount_text(r) + "\n" + memory_text(r) + "\n" + time_text(r) +
         machine_description(r.subject.threads, isa_name(r.subject.isa)) + "\n";
}

json plan_json(const PlanReport& r) {
  json out = {{"parameters", r.counts.total},
              {"tokens", r.tokens},
              {"tokens_per_parameter", r.tokens_per_parameter()},
              {"compute_optimal",
               {{"tokens_per_parameter", kOptimalTokensPerParameter},
                {"tokens", r.optimal_tokens()},
                {"steps", r.optimal_steps()}}},
              {"train_tokens", r.train_tokens},
              {"epochs", static_cast<double>(r.tokens) / static_cast<double>(r.train_tokens)},
              {"flops", r.flops()},
              {"memory_bytes", memory_json(r)},
              {"fits_with", json::array()},
              {"peak_flops_per_second", r.peak_flops},
              {"machine", machine_description(r.subject.threads, isa_name(r.subject.isa))},
              {"config", run_config_json(r.subject.config)}};
  for (const RunFit& fit : r.fits_with) {
    out["fits_with"].push_back({{"flags", fit.flags},
                                {"dtype", dtype_name(tensor_dtype(fit.dtype))},
                                {"micro_batch", fit.micro_batch},
                                {"recompute", fit.recompute},
                                {"bytes", fit.bytes}});
  }
  if (r.time) {
    const RunTime& t = *r.time;
    out["time_seconds"] = {{"step", t.step},         {"steps", t.steps},   {"evaluation", t.evaluation},
                           {"sampling", t.sampling}, {"saving", t.saving}, {"setup", t.setup},
                           {"total", t.total()}};
  }
  return out;
}

}  // namespace gpt
