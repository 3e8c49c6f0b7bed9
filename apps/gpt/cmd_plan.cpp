#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/clock.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/format.h"
#include "base/problems.h"
#include "base/process_memory.h"
#include "base/ranges.h"
#include "command.h"
#include "config_flags.h"
#include "model/model_files.h"
#include "options.h"
#include "output.h"
#include "plan_report.h"
#include "run/advice.h"
#include "run/run_facts.h"
#include "shown_flags.h"
#include "sweep/loss_law.h"

namespace gpt {
namespace {

constexpr const char* kPlanFooter = R"(Examples:
  gpt plan --data input.txt                          which preset fits the text
  gpt plan --preset mini-gpt --data input.txt --steps 5000
  gpt plan --preset tiny --data tales --json
  gpt plan --preset gpt2 --data tales --batch-size 32 --memory 8    check the run against 8 GiB of memory
  gpt plan --preset gpt2 --data tales --ranks 8 --link 25           eight processes, 25 Gbit/s to each
  gpt plan --init-from hf-model --data talks.txt --lora-rank 8      compare an adapter with full fine-tuning
  gpt plan --preset tiny --data tales --fit shapes     predict the loss with a scaling law
  gpt plan --preset tiny --data tales --out run        save the plan for the report of the run

Without a preset or a shape, gpt plan recommends the preset that fits the text: the largest one with 20 tokens per
parameter in 4 passes over the text. gpt train chooses the same preset.

gpt plan accepts the options of gpt train, but does not train. It shows parameters, tokens, FLOPs and peak memory, and
estimates the time on this machine from parts of the run that are measured for a few seconds.)";

constexpr double kLinkGbit = 10;
// Memory of Open MPI 4.1 in a process; 10 to 12 MiB were measured.
constexpr int64_t kMpiBytes = int64_t{12} << 20;

struct PlanArguments {
  TrainSources sources;
  std::string fit, out;
  double memory_gib = 0, seconds = 5;
  std::optional<double> link_gbit;
  int ranks = 1;
  int64_t lora_rank = 0;
  std::vector<std::string> lora_targets;
  bool json = false;
};

void check_processes(const PlanArguments& a) {
  if (a.ranks < 1 || a.ranks > 1 << 20)
    fail_usage("--ranks: expected the number of processes, 1 to {}, found {}", 1 << 20, a.ranks);
  if (!a.link_gbit) return;
  if (!(*a.link_gbit > 0 && *a.link_gbit <= 1e5))
    fail_usage("--link: expected Gbit/s up to 1e5, found {}", *a.link_gbit);
  if (a.ranks == 1) fail_usage("--link: requires --ranks N, the number of processes");
}

void check_adapter(const PlanArguments& a) {
  if (a.lora_rank < 0) fail_usage("--lora-rank: expected a rank of at least 1, found {}", a.lora_rank);
  if (a.lora_rank > 0 && a.sources.init_from.empty())
    fail_usage("--lora-rank: requires --init-from MODEL, the base model");
  if (a.lora_rank > 0 && a.ranks > 1) fail_usage("--lora-rank: cannot be combined with --ranks {}", a.ranks);
  if (a.lora_rank == 0 && !a.lora_targets.empty()) fail_usage("--lora-targets: requires --lora-rank");
}

void check_own(const PlanArguments& a) {
  Problems problems;
  problems.collect([&] {
    if (!(a.memory_gib >= 0 && a.memory_gib <= 1 << 20))
      fail_usage("--memory: expected GiB up to {}, found {}", 1 << 20, a.memory_gib);
  });
  problems.collect([&] {
    if (!(a.seconds >= 0 && a.seconds <= 3600))
      fail_usage("--measure: expected 0 to 3600 seconds, found {}", a.seconds);
  });
  problems.collect([&] { check_processes(a); });
  problems.collect([&] { check_adapter(a); });
  problems.report();
}

// Returns the command that plans a preset with the given memory and number of ranks.
std::vector<std::string> plan_command(const PlanArguments& a, const std::string& preset) {
  std::vector<std::string> command = {"gpt", "plan", "--preset", preset};
  if (a.memory_gib > 0) command.insert(command.end(), {"--memory", fmt::format("{:g}", a.memory_gib)});
  if (a.ranks > 1) command.insert(command.end(), {"--ranks", std::to_string(a.ranks)});
  if (a.link_gbit) command.insert(command.end(), {"--link", fmt::format("{:g}", *a.link_gbit)});
  return command;
}

// Appends the config key flags that were given and that the command does not contain yet.
std::vector<std::string> with_flags(std::vector<std::string> command, const ConfigFlags& flags) {
  for (const auto& [key, values] : flags.values()) {
    const std::string flag = ConfigFlags::flag_name(key);
    if (std::ranges::find(command, flag) != command.end()) continue;
    if (key == "include" || key == "exclude") {  // each flag takes one value
      for (const std::string& value : values)
        command.insert(command.end(), {flag, value});
      continue;
    }
    command.push_back(flag);
    command.insert(command.end(), values.begin(), values.end());
  }
  return command;
}

// Returns the flags that the advice suggests. If two notes suggest a value for the same flag, the first note
// wins.
std::vector<std::string> advised_flags(const std::vector<Advice>& advice) {
  std::vector<std::string> flags;
  for (const Advice& one : advice) {
    if (one.flags.empty() || std::ranges::find(flags, one.flags.front()) != flags.end()) continue;
    flags.insert(flags.end(), one.flags.begin(), one.flags.end());
  }
  return flags;
}

// Returns the command for the planned training, including the changed flags that make the run fit or that the
// advice suggests.
std::vector<std::string> planned_command(const PlanArguments& a, const ConfigFlags& flags,
                                         const std::vector<std::string>& changes) {
  if (a.lora_rank > 0)
    return {"gpt",         "finetune",    a.sources.init_from,         "--task", "chat", "--data",
            "talks.jsonl", "--lora-rank", std::to_string(a.lora_rank), "--out",  "tuned"};
  std::vector<std::string> command = {"gpt"};
  if (a.ranks > 1) command.insert(command.end(), {"launch", "-n", std::to_string(a.ranks), "--"});
  command.emplace_back("train");
  for (const auto& [flag, value] : {std::pair{"--preset", a.sources.preset},
                                    {"--config", a.sources.config},
                                    {"--init-from", a.sources.init_from}}) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  }
  command.insert(command.end(), {"--out", a.out.empty() ? "run" : a.out});
  command.insert(command.end(), changes.begin(), changes.end());
  return with_flags(command, flags);
}

// For a run that does not fit: returns the command with the first change that makes the run fit, else the
// plan of a smaller preset that fits, else the list of presets.
std::vector<std::string> fitting_command(const PlanArguments& a, const ConfigFlags& flags,
                                         const RunPlan& report) {
  if (!report.fits_with.empty()) {
    std::istringstream words(report.fits_with.front().flags);
    return planned_command(a, flags, {std::istream_iterator<std::string>(words), {}});
  }
  const std::string preset = largest_preset(flags, report);
  if (preset.empty()) return {"gpt", "info"};
  return with_flags(plan_command(a, preset), flags);
}

int propose(const PlanArguments& a, const ConfigFlags& flags) {
  const Proposals proposals = propose_presets(flags);
  write_output(a.json ? proposals_json(proposals).dump(2) + "\n" : proposals_text(proposals));
  if (a.json) return 0;
  const Proposal& best = proposals.all[proposals.chosen];
  std::vector<std::string> command = plan_command(a, best.preset);
  command.insert(command.end(), {"--steps", std::to_string(best.steps)});
  write_next(with_flags(command, flags));
  return 0;
}

// Returns the number of rows of a micro-batch to measure. Large models on small machines need minutes for a
// full micro-batch; then only as many rows are measured as the time allows.
int64_t rows_to_measure(const PlanArguments& a, const RunPlan& report, double& row_seconds) {
  constexpr double kShareOfPeak = 0.5;  // approximate share of peak that training reaches
  const double token_seconds =
      report.flops() / static_cast<double>(report.tokens) / (kShareOfPeak * report.peak_flops);
  row_seconds = token_seconds * static_cast<double>(report.subject.config.model.n_ctx);
  return measured_rows(report.subject, a.seconds, row_seconds);
}

RunRates measure(const PlanArguments& a, const RunPlan& report, const RunData& data, Machine& machine) {
  double row_seconds = 0;
  const int64_t rows = rows_to_measure(a, report, row_seconds);
  const double passes = rows == 1 ? 4 * row_seconds : 0;
  write_note(fmt::format("measuring parts of the run, about {}\n", format_duration(2 * a.seconds + passes)));
  return measure_rates(report.subject, data, machine.backend, a.seconds, rows, a.out.empty() ? "." : a.out);
}

// Plans the training of an adapter on the given model, instead of training all weights.
void plan_adapter(const PlanArguments& a, RunPlan& report, const RunData& data, Machine& machine) {
  AdapterSettings settings{.rank = a.lora_rank};
  if (!a.lora_targets.empty()) settings.targets = a.lora_targets;
  const LoadedModel base(a.sources.init_from, std::nullopt, MatrixOrder::as_stored);
  report.adapter = gpt::plan_adapter(report.subject, base, settings);
  if (a.seconds <= 0 || report.adapter->memory.total() > report.available) return;
  double row_seconds = 0;
  const int64_t rows = rows_to_measure(a, report, row_seconds);
  report.adapter->step =
      measure_adapter_step(report.subject, base, settings, data, machine.backend, a.seconds, rows);
}

int make_plan(const PlanArguments& a, const ConfigFlags& flags) {
  std::optional<LossFit> fit;
  if (!a.fit.empty()) fit = read_loss_fit(a.fit);
  const auto start = Clock::now();
  PlanSubject subject;
  subject.config = new_run_config(a.sources, flags);
  RunConfig& config = subject.config;
  note_choices(a.sources, flags, config);
  share_among(config.train, a.ranks);
  subject.processes = a.ranks;
  subject.link_bytes_per_second = a.link_gbit.value_or(kLinkGbit) * 1e9 / 8;
  const RunData data = load_run_data(config.train, config.model.n_ctx, a.sources.init_from);
  check_run(config.train, data.has_val());
  write_note(data.notes);
  config.model.vocab_size = vocabulary_size(config.model.vocab_size, *data.tokenizer);
  complete(config.model);
  const double loading = seconds_since(start);
  MachineOptions machine_options{.threads = config.train.threads};
  Machine machine(machine_options);
  subject.evaluates = data.has_val() && config.train.eval_every > 0;
  subject.val_tokens = data.val.size();
  subject.kernels = &machine.backend.kernels;
  subject.threads = machine.pool.size();
  const int64_t free = available_memory(), resident = resident_bytes();
  subject.base_bytes = resident + (a.ranks > 1 ? kMpiBytes : 0);

  RunPlan report(subject, data.train.size());
  report.available = a.memory_gib > 0 ? static_cast<int64_t>(a.memory_gib * 0x1p30) : free + resident;
  report.peak_flops = measure_peak_flops(machine.backend, tensor_dtype(config.train.dtype));
  if (!a.out.empty()) check_output_file("--out", a.out + "/plan.json", {"\"compute_optimal\""});
  if (!report.fits()) {
    report.fits_with = find_fits(subject, report.available);
  } else if (a.seconds > 0) {
    report.rates = measure(a, report, data, machine);
    report.rates->setup += loading;
    // The measured steps can be faster than the measured matmuls. The peak must not be lower than the
    // throughput of the steps.
    report.peak_flops = std::max(report.peak_flops, report.flops() / report.time()->steps / a.ranks);
  }
  if (a.lora_rank > 0) plan_adapter(a, report, data, machine);
  if (fit) report.forecast = forecast_loss(*fit, report);
  nlohmann::json json = run_plan_json(report);
  if (!a.out.empty()) write_file_atomic(a.out + "/plan.json", json.dump(2) + "\n");
  const std::vector<Advice> advice = run_advice({.config = config,
                                                 .parameters = report.counts.total,
                                                 .train_tokens = data.train.size(),
                                                 .val_tokens = data.val.size(),
                                                 .documents = data.documents,
                                                 .chosen_tokenizer = a.sources.init_from.empty()});
  json["advice"] = transformed(advice, [](const Advice& one) { return show_flags(one.text); });
  write_output(a.json ? json.dump(2) + "\n" : plan_text(report, advice));
  if (a.json) return 0;
  write_next(report.fits() ? planned_command(a, flags, advised_flags(advice))
                           : fitting_command(a, flags, report));
  return 0;
}

void check(const PlanArguments& a, const ConfigFlags& flags) {
  Problems problems;
  problems.collect([&] { check_own(a); });
  problems.collect([&] {
    if (a.ranks == 1 && flags.is_given("zero"))
      fail_usage("--zero: requires --ranks N, the number of processes");
  });
  const RunConfig config = new_run_config(a.sources, flags, problems);
  problems.collect([&] { check_sources(config.train, a.sources.init_from); });
  problems.report();
}

int run(const PlanArguments& a, const ConfigFlags& flags) {
  if (!names_model(a.sources, flags)) return propose(a, flags);
  if (a.out.empty()) return make_plan(a, flags);
  const FolderLock lock = FolderLock::of_folder(a.out, write_note);
  return make_plan(a, flags);
}

void add_setup_options(CLI::App& app, PlanArguments& a) {
  add(app,
      {.flags = "--ranks",
       .value = "N",
       .help = "Number of processes. Memory and time are those of each process"},
      a.ranks);
  add(app,
      {.flags = "--link",
       .value = "GBIT",
       .help = "Network bandwidth of each process in Gbit/s",
       .fallback = fmt::format("{:g}", kLinkGbit)},
      a.link_gbit);
  add(app,
      {.flags = "--lora-rank",
       .value = "N",
       .help = "With --init-from: plan a LoRA adapter of this rank. 0: off"},
      a.lora_rank);
  add(app,
      {.flags = "--lora-targets",
       .value = "NAME ...",
       .help = "Matrices that receive an adapter",
       .fallback = "all-linear"},
      a.lora_targets);
}

}  // namespace

Command add_plan_command(CLI::App& root) {
  auto a = std::make_shared<PlanArguments>();
  CLI::App* app =
      add_command(root, "plan", "estimate tokens, FLOPs, memory and time of a training run", kPlanFooter);
  add_preset_option(*app, a->sources.preset);
  add_config_option(*app, a->sources.config);
  add(*app,
      {.flags = "--init-from",
       .value = "MODEL",
       .help = "Start from the weights of a model",
       .kind = ValueKind::model},
      a->sources.init_from);
  add(*app,
      {.flags = "--memory",
       .value = "GIB",
       .help = "Memory to plan for, in GiB",
       .fallback = "the available memory",
       .common = true},
      a->memory_gib);
  add(*app,
      {.flags = "--fit",
       .value = "SWEEP",
       .help = "Predict the loss with the scaling law of a sweep: its folder or fit.json",
       .kind = ValueKind::path,
       .common = true},
      a->fit);
  add(*app,
      {.flags = "-o,--out",
       .value = "DIR",
       .help = "Run folder for plan.json, which the report of the run compares with the results",
       .kind = ValueKind::path,
       .aliases = kOutAliases},
      a->out);
  add(*app,
      {.flags = "--measure",
       .value = "SECONDS",
       .help = "Time to measure steps, in seconds. 0: estimate no times"},
      a->seconds);
  add_setup_options(*app, *a);
  add_json_option(*app, a->json);
  const auto flags = std::make_shared<ConfigFlags>(*app, [](const KeyInfo&) { return true; });
  return {app, [a, flags] { return run(*a, *flags); }, [a, flags] { check(*a, *flags); }};
}

}  // namespace gpt
