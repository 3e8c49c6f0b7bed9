#include "plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/ranges.h"
#include "model/model_counts.h"
#include "options.h"
#include "output.h"
#include "report/table.h"
#include "run/plan.h"
#include "run/run_data.h"
#include "run/run_facts.h"
#include "shown_flags.h"
#include "train/schedule.h"

namespace gpt {
namespace {

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
      {"passes over the text",
       format_passes(static_cast<double>(r.tokens) / static_cast<double>(r.train_tokens)),
       fmt::format("of {}", format_amount(r.train_tokens, "token"))},
      {"FLOPs", format_count(r.flops()),
       fmt::format("{} a token", format_count(r.counts.training_flops(r.subject.config.model.n_ctx)))}};
  if (const double flops = optimizer_flops(r.subject.config); flops > 0)
    table.rows.push_back({"FLOPs per update", format_count(flops),
                          fmt::format("the optimizer's matmuls: {} of a step",
                                      format_percent(optimizer_share(r.subject.config)))});
  if (r.subject.evaluates) {
    table.rows.push_back(
        {"evaluations", format_thousands(evaluations(c, planned_steps(c))),
         fmt::format("every {}, {}{}: {} of the run", format_amount(c.eval_every, "step"),
                     format_amount(c.eval_batches, "batch", "batches"), c.eval_train ? " of both texts" : "",
                     format_percent(evaluation_share(c)))});
  }
  if (c.patience > 0)
    table.rows.push_back({"patience", format_thousands(c.patience),
                          "evaluations without a better validation loss, after which the run stops"});
  return format_table(table);
}

std::string memory_text(const RunPlan& r) {
  TextTable table{
      .columns = {r.subject.processes > 1 ? "peak memory of each process" : "peak memory", "bytes"}};
  for (const RunMemory::Part& part : r.memory.parts()) {
    if (part.bytes > 0) table.rows.push_back({part.label, format_bytes(part.bytes)});
  }
  table.rows.push_back({"all", format_bytes(r.memory.total())});
  table.rows.push_back({"available", format_bytes(r.available)});
  std::string text = format_table(table);
  if (r.fits()) return text;
  text += fmt::format("the run does not fit: {} too much\n", format_bytes(r.memory.total() - r.available));
  if (r.subject.processes > 1 && r.subject.config.train.zero < 3)
    text += fmt::format("--zero {} shards more of it between the processes, with the same results\n",
                        r.subject.config.train.zero == 0   ? "1, 2 or 3"
                        : r.subject.config.train.zero == 1 ? "2 or 3"
                                                           : "3");
  if (r.fits_with.empty()) {
    const std::vector<RunMemory::Part> parts = r.memory.parts();
    const auto largest = std::ranges::max_element(parts, {}, &RunMemory::Part::bytes);
    return text + fmt::format(
                      "no micro-batch fits, even with --recompute and --dtype bf16; the largest part is {} "
                      "({}); use a smaller model or context\n",
                      largest->label, format_bytes(largest->bytes));
  }
  TextTable fits{.columns = {"it fits with", "peak memory"}};
  for (const RunFit& fit : r.fits_with)
    fits.rows.push_back({fit.flags, format_bytes(fit.bytes)});
  return text + "\n" + format_table(fits);
}

std::string time_text(const RunPlan& r) {
  const std::optional<RunTime> time = r.time();
  // Every process is assumed to run on a machine like this one.
  const double rate = r.peak_flops * r.subject.processes;
  if (!time) {
    return fmt::format("time: not measured; with a matmul throughput of {:.0f} GFLOP/s{}, at least {}\n",
                       rate / 1e9, r.subject.processes > 1 ? " of all processes" : "",
                       format_duration(r.flops() / rate));
  }
  const RunTime& t = *time;
  TextTable table{.columns = {"time", "", ""}};
  const auto share = [&](double seconds) { return format_percent(seconds / t.total()); };
  table.rows.push_back({"steps", format_duration(t.steps),
                        fmt::format("{:.4g} s each, {} tokens/s, {} of the peak matmul throughput", t.step,
                                    format_rate(static_cast<double>(r.step_tokens) / t.step),
                                    format_percent(r.flops() / t.steps / rate))});
  for (const auto& [name, seconds] : {std::pair{"evaluation", t.evaluation},
                                      {"sampling", t.sampling},
                                      {"saving", t.saving},
                                      {"setting up", t.setup}}) {
    if (seconds > 0) table.rows.push_back({name, format_duration(seconds), share(seconds)});
  }
  table.rows.push_back({"all", format_duration(t.total())});
  return format_table(table);
}

std::string processes_text(const RunPlan& r) {
  const PlanSubject& s = r.subject;
  if (s.processes == 1) return "";
  const TrainConfig& c = s.config.train;
  TextTable table{.columns = {"processes", std::to_string(s.processes), ""}};
  table.rows.push_back({"samples per step and process", std::to_string(c.batch_size / s.processes),
                        fmt::format("of {} in total; {} shards; the memory above is that of one process",
                                    c.batch_size, shard_count(c, s.processes))});
  table.rows.push_back({"machines", "", "assumes that each process has a machine like this one"});
  if (r.rates) {
    const ExchangePlan e = plan_exchange(s, *r.rates);
    const double step = r.time()->step;
    table.rows.push_back({"messages", format_bytes(e.sent_bytes),
                          fmt::format("sent by each process per step, {:.3g} s at {:g} Gbit/s", e.seconds,
                                      s.link_bytes_per_second * 8e-9)});
    table.rows.push_back({"not hidden", fmt::format("{:.3g} s", e.exposed),
                          fmt::format("of a step of {:.3g} s: {}; docs/scaling.md has the formula", step,
                                      format_percent(e.exposed / step))});
    table.rows.push_back({"waiting", fmt::format("{:.3g} s", e.waiting),
                          fmt::format("for the slowest process: measured parts differ by {}",
                                      format_percent(r.rates->spread))});
  }
  return format_table(table) + "\n";
}

std::string adapter_text(const RunPlan& r) {
  if (!r.adapter) return "";
  const AdapterPlan& a = *r.adapter;
  const auto of_all = [](double part, double all) { return format_percent(part / all); };
  TextTable table{.columns = {fmt::format("an adapter of rank {}", a.rank), "", "of full fine-tuning"}};
  table.rows.push_back({"parameters", format_thousands(a.parameters),
                        of_all(static_cast<double>(a.parameters), static_cast<double>(r.counts.total))});
  const auto bytes = static_cast<double>(a.memory.total());
  table.rows.push_back(
      {"peak memory", format_bytes(bytes), of_all(bytes, static_cast<double>(r.memory.total()))});
  for (const RunMemory::Part& part : a.memory.parts()) {
    if (part.bytes > 0) table.rows.push_back({std::string("  ") + part.label, format_bytes(part.bytes), ""});
  }
  if (const auto time = r.time(); time && a.step > 0)
    table.rows.push_back({"a step", fmt::format("{:.4g} s", a.step),
                          fmt::format("{:.2f} times as fast as full fine-tuning", time->step / a.step)});
  return format_table(table) + "\n";
}

std::string loss_text(const RunPlan& r) {
  if (!r.forecast) return "";
  const LossForecast& f = *r.forecast;
  TextTable table{.columns = {"validation loss by the scaling law", "", ""}};
  table.rows.push_back({"this run", fmt::format("{:.4f}", f.loss), "nats per token"});
  if (f.best_parameters > 0) {
    table.rows.push_back(
        {"best for the same FLOPs", fmt::format("{:.4f}", f.best_loss),
         fmt::format("{} parameters, {} tokens; nearest: {}", format_count(f.best_parameters),
                     format_count(f.best_tokens), f.best_flags)});
  }
  std::string text = format_table(table) + "for the text and tokenizer of the sweep\n";
  if (!f.warning.empty()) text += "warning: these losses are unreliable: " + f.warning + "\n";
  return text + "\n";
}

constexpr const char* kPresets[] = {"tiny",        "nanochat-demo", "mini-gpt", "gpt2",
                                    "gpt2-medium", "gpt2-large",    "gpt2-xl"};

Proposal proposal_of(const std::string& preset, RunConfig config, const RunData& data,
                     double flops_per_second) {
  config.model.vocab_size = data.tokenizer->vocab_size();
  complete(config.model);
  const ModelCounts counts(config.model);
  const int64_t step_tokens = config.train.batch_size * config.model.n_ctx;
  Proposal p{.preset = preset, .parameters = counts.total};
  p.steps = std::max<int64_t>(1, Proposals::kPasses * data.train.size() / step_tokens);
  p.seconds = static_cast<double>(p.steps * step_tokens) * counts.training_flops(config.model.n_ctx) /
              flops_per_second;
  return p;
}

// Throws Error if a text is shorter than the context of a preset, so that a run could not start.
void require_windows(const RunData& data, const RunConfig& config) {
  const int64_t n_ctx = config.model.n_ctx;
  require_context(data.train, n_ctx, "the training text");
  if (config.train.eval_every > 0 && data.val.size() > 0)
    require_context(data.val, n_ctx, "the validation text");
}

double tokens_per_parameter(const Proposals& p, const Proposal& one) {
  return static_cast<double>(p.train_tokens) / static_cast<double>(one.parameters);
}

}  // namespace

std::string plan_text(const RunPlan& r, const std::vector<Advice>& advice) {
  std::string text = amount_text(r) + "\n" + memory_text(r) + "\n" + time_text(r) + "\n" + processes_text(r) +
                     adapter_text(r) + loss_text(r) +
                     machine_description(r.subject.threads, r.subject.kernels->name) + "\n";
  for (const Advice& one : advice)
    text += (&one == &advice.front() ? "\n" : "") + ("note: " + show_flags(one.text)) + "\n";
  return text;
}

Proposals propose_presets(const ConfigFlags& flags) {
  RunConfig first = new_run_config({kPresets[0], "", ""}, flags);
  first.train.eval_every = 0;  // disables the check for a minimum length
  check_sources(first.train, "");
  const RunData data = load_run_data(first.train, 1, "");
  Machine machine({.threads = first.train.threads});
  const double rate = measure_peak_flops(machine.backend, tensor_dtype(first.train.dtype));
  Proposals p{.train_tokens = data.train.size(), .all = {}};
  for (const char* preset : kPresets)
    p.all.push_back(proposal_of(preset, new_run_config({preset, "", ""}, flags), data, rate));
  std::ranges::stable_sort(p.all, {}, &Proposal::parameters);
  for (size_t i = 0; i < p.all.size(); ++i) {
    if (p.all[i].parameters * kOptimalTokensPerParameter <= Proposals::kPasses * p.train_tokens) p.chosen = i;
  }
  require_windows(data, new_run_config({p.all[p.chosen].preset, "", ""}, flags));
  return p;
}

TrainSources recommended_sources(const ConfigFlags& flags) {
  const Proposals proposals = propose_presets(flags);
  const Proposal& best = proposals.all[proposals.chosen];
  write_note(fmt::format("note: no --preset given; using {}{}, which gpt plan recommends for {}\n",
                         best.preset, flags.is_set("steps") ? "" : ", " + format_amount(best.steps, "step"),
                         format_amount(proposals.train_tokens, "token")));
  return {.preset = best.preset, .steps = best.steps};
}

std::string largest_preset(const ConfigFlags& flags, const RunPlan& plan) {
  std::string largest;
  int64_t parameters = 0;
  for (const char* preset : kPresets) {
    try {
      PlanSubject subject = plan.subject;
      subject.config = new_run_config({preset, "", ""}, flags);
      subject.config.model.vocab_size = plan.subject.config.model.vocab_size;
      complete(subject.config.model);
      const int64_t size = ModelCounts(subject.config.model).total;
      if (size < parameters || plan_memory(subject).total() > plan.available) continue;
      largest = preset;
      parameters = size;
    } catch (const Error&) {  // for example if the number of heads does not divide a width given by a flag
    }
  }
  return largest;
}

std::string proposals_text(const Proposals& p) {
  TextTable table{{"preset", "parameters", "tokens/parameter", "steps", "at least", ""}};
  for (size_t i = 0; i < p.all.size(); ++i) {
    const Proposal& one = p.all[i];
    table.rows.push_back({one.preset, format_thousands(one.parameters),
                          format_passes(tokens_per_parameter(p, one)), format_thousands(one.steps),
                          format_duration(one.seconds), i == p.chosen ? "fits best" : ""});
  }
  return fmt::format("no --preset given; presets for {} tokens and {} passes:\n\n",
                     format_thousands(p.train_tokens), Proposals::kPasses) +
         format_table(table) +
         fmt::format(
             "\nrecommended: the largest preset with {} tokens per parameter over all passes, otherwise the "
             "smallest\n",
             kOptimalTokensPerParameter);
}

nlohmann::json proposals_json(const Proposals& p) {
  const auto presets = transformed(p.all, [&](const Proposal& one) {
    return nlohmann::json{{"preset", one.preset},
                          {"parameters", one.parameters},
                          {"tokens_per_parameter", tokens_per_parameter(p, one)},
                          {"steps", one.steps},
                          {"seconds_at_least", one.seconds}};
  });
  return {{"train_tokens", p.train_tokens},
          {"passes", Proposals::kPasses},
          {"preset", p.all[p.chosen].preset},
          {"presets", presets}};
}

}  // namespace gpt
