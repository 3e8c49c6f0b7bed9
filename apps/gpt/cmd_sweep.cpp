#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/folder_lock.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "command.h"
#include "config_flags.h"
#include "distributed/machine_share.h"
#include "foreign_names.h"
#include "interrupt.h"
#include "model/model_counts.h"
#include "options.h"
#include "output.h"
#include "report/next_step.h"
#include "report/table.h"
#include "run/run_data.h"
#include "sweep/made_runs.h"
#include "sweep/page.h"
#include "sweep/sweep.h"
#include "world.h"

namespace gpt {
namespace {

constexpr const char* kSweepFooter = R"(Examples:
  gpt sweep --preset tiny --data tales --over n_layer=2,4,8 --over n_embd=64,128 --minutes 10 --out shapes
  gpt sweep --preset tiny --data tales --over lr=1e-3,3e-3,1e-2 --flops 1e12 --dry-run
  gpt sweep --preset tiny --data tales --over n_layer=1,2,4,8 --iso-params 800000 --over lr=2e-3,4e-3 --minutes 10 --seeds 2 --out depth-or-width
  gpt sweep --preset mini-gpt --data input.txt --over norm=layer,rms --over act=gelu,swiglu --steps 500 --out ablation
  gpt sweep --out shapes --resume                       continue after Ctrl-C or a kill
  gpt launch -n 4 -- sweep --preset tiny --data tales --over n_layer=2,4,8,16 --minutes 10 --out shapes

All runs have the same number of FLOPs (--flops, --minutes) or steps (--steps). The results are DIR/sweep.html, sweep.svg,
sweep.json and fit.json, and a complete run folder DIR/runs/NAME for each run. With several processes, each process trains its own
runs.)";

struct SweepArguments {
  std::string preset, config, out, command_line;
  std::vector<std::string> over, flops;
  double minutes = 0;
  int64_t levels = 1, seeds = 1, iso_params = 0;
  bool resume = false, dry_run = false, json = false;
};

RunConfig resolve(const SweepArguments& a, const ConfigFlags& flags, const SweepPoint& point) {
  Settings settings;
  // The evaluation and sampling intervals of a preset are meant for one long run, not for a sweep.
  if (!a.preset.empty()) settings.add_preset(a.preset);
  settings.forget_preset("vocab_size");
  settings.add_json({{"eval_every", 0}, {"sample_every", 0}, {"eval_train", false}}, "gpt sweep");
  if (!a.config.empty()) settings.add_file(a.config);
  flags.apply_environment(settings);
  flags.apply_flags(settings);
  settings.begin_source();
  for (const auto& [key, value] : point)
    settings.add_text(key, value, "--over " + key);
  RunConfig config = settings.resolve();
  if (config.train.patience > 0)
    fail_usage("patience {}: a sweep compares runs of equal length; leave out patience",
               config.train.patience);
  return config;
}

// Caches the vocabulary size and the entropy floor of each text.
class DataFacts {
 public:
  struct Facts {
    int64_t vocab_size = 0;
    std::optional<double> floor;
  };
  const Facts& of(const RunConfig& config) {
    const TrainConfig& t = config.train;
    const nlohmann::json key = {t.tokenizer, t.val_fraction, t.data, t.val_data,
                                t.include,   t.exclude,      t.field};
    const auto found = facts_.find(key);
    if (found != facts_.end()) return found->second;
    check_sources(t, "");
    const RunData data = load_run_data(t, config.model.n_ctx, "");
    write_note(data.notes);
    if (!data.has_val())
      fail_usage("gpt sweep compares validation losses: give --val-data, or a --val-fraction above 0");
    return facts_[key] = {data.tokenizer->vocab_size(), data.floor};
  }
  // Returns the floor if all runs use the same text, else nothing.
  std::optional<double> floor() const {
    return facts_.size() == 1 ? facts_.begin()->second.floor : std::nullopt;
  }

 private:
  std::map<nlohmann::json, Facts> facts_;
};

SweepRun shape_of(const SweepArguments& a, const ConfigFlags& flags, const SweepPoint& point,
                  DataFacts& data) {
  SweepRun run{.point = point, .config = resolve(a, flags, point)};
  if (!a.out.empty()) refuse_output_among_texts(a.out, source_paths(run.config.train));
  ModelConfig& model = run.config.model;
  if (model.vocab_size == 0) model.vocab_size = data.of(run.config).vocab_size;
  data.of(run.config);
  const ModelConfig base = resolve(a, flags, {}).model;
  const bool follows = !flags.is_given("d_ff") && point.count("d_ff") == 0 && model.d_ff == base.d_ff;
  const int64_t wanted = a.iso_params > 0 ? width_for(model, a.iso_params, 2 * model.n_head) : model.n_embd;
  if (follows) model.d_ff = scaled_d_ff(base.d_ff, base.n_embd, wanted);
  if (wanted != model.n_embd) {
    model.n_embd = wanted;
    model.head_dim = 0;
  }
  complete(model);
  const ModelCounts counts(model);
  run.parameters = static_cast<double>(counts.total);
  run.flops_per_token = counts.training_flops(model.n_ctx);
  return run;
}

double step_tokens(const SweepRun& run) {
  return static_cast<double>(run.config.train.batch_size * run.config.model.n_ctx);
}

constexpr double kEvaluations = 8;

// Returns the FLOP budget of a run of the largest level with which the whole sweep takes `seconds`. The sweep
// takes as long as the rank with the most work.
double budget_for(const SweepArguments& a, const std::vector<SweepRun>& shapes,
                  const std::vector<double>& step_seconds, double seconds) {
  std::vector<double> flops;
  std::vector<size_t> shape;
  for (int64_t level = 0; level < a.levels; ++level) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      flops.insert(flops.end(), static_cast<size_t>(a.seeds), std::pow(0.5, static_cast<double>(level)));
      shape.insert(shape.end(), static_cast<size_t>(a.seeds), i);
    }
  }
  const std::vector<int> makers = deal_runs(flops, world().size());
  std::vector<double> fixed(static_cast<size_t>(world().size())), per_flop(fixed.size());
  for (size_t run = 0; run < flops.size(); ++run) {
    const auto maker = static_cast<size_t>(makers[run]);
    const SweepRun& of = shapes[shape[run]];
    const double step = step_seconds[shape[run]];
    fixed[maker] += kEvaluations / 3 * step * static_cast<double>(of.config.train.eval_batches);
    per_flop[maker] += flops[run] * step / (of.flops_per_token * step_tokens(of));
  }
  double budget = std::numeric_limits<double>::max();
  for (size_t maker = 0; maker < fixed.size(); ++maker) {
    if (per_flop[maker] > 0) budget = std::min(budget, (seconds - fixed[maker]) / per_flop[maker]);
  }
  if (budget <= 0)
    fail_usage("--minutes {}: evaluations alone take {}; use fewer --eval-batches, values or --seeds",
               a.minutes, format_duration(std::ranges::max(fixed)));
  return budget;
}

// Returns the FLOP budgets of the runs: those given by flags, or those with which all runs together take the
// given number of minutes.
std::vector<double> budgets_of(const SweepArguments& a, const std::vector<SweepRun>& shapes,
                               const std::vector<double>& step_seconds) {
  std::vector<double> budgets;
  for (const std::string& text : a.flops) {
    for (const std::string_view word : split(text, ',')) {
      const std::string part(word);
      char* end = nullptr;
      const double value = std::strtod(part.c_str(), &end);
      if (part.empty() || *end != '\0' || !(value > 0 && value < 1e30))
        fail_usage("--flops: expected positive numbers such as 1e13,3e13, found \"{}\"", part.substr(0, 64));
      budgets.push_back(value);
    }
  }
  if (a.minutes > 0) {
    const double largest = budget_for(a, shapes, step_seconds, a.minutes * 60);
    for (int64_t level = 0; level < a.levels; ++level)
      budgets.push_back(largest * std::pow(0.5, static_cast<double>(level)));
  }
  if (budgets.empty()) budgets.push_back(0);
  return budgets;
}

double expected_seconds(const SweepRun& run, double step_seconds) {
  const TrainConfig& t = run.config.train;
  const int64_t evaluations = t.steps / std::max<int64_t>(1, t.eval_every);
  return step_seconds * (static_cast<double>(t.steps) +
                         static_cast<double>(evaluations) / 3 * static_cast<double>(t.eval_batches));
}

// Writes a note if a learning rate was given for runs that have their own learning rates.
void note_rates(const std::vector<SweepRun>& shapes, const ConfigFlags& flags) {
  for (const SweepRun& run : shapes) {
    const bool swept = run.point.contains("lr");
    if (run.config.train.optimizer != "muon-nanochat" || !(swept || flags.is_given("lr"))) continue;
    return note_own_rates(swept ? "--over lr" : "--lr");
  }
}

struct Plan {
  Sweep sweep;
  std::vector<double> seconds;  // expected seconds of each run
};

// speed: speed of a rank while the other ranks are running, relative to a rank that runs alone.
Plan plan_sweep(const SweepArguments& a, const ConfigFlags& flags, double speed) {
  const auto axes = transformed(a.over, parse_axis);
  for (const SweepAxis& axis : axes) {
    if (a.iso_params > 0 && (axis.key == "n_embd" || axis.key == "d_ff"))
      fail_usage("--iso-params chooses {}: leave out --over {}", axis.key, axis.key);
  }
  DataFacts data;
  std::vector<SweepRun> shapes;
  std::vector<double> step_seconds;
  // Step time by shape, because runs of the same shape take the same time.
  std::map<std::string, double> measured;
  for (const SweepPoint& point : grid_of(axes)) {
    shapes.push_back(shape_of(a, flags, point, data));
    const SweepRun& run = shapes.back();
    const std::string key = fmt::format("{} {} {}", model_keys_json(run.config.model).dump(),
                                        run.config.train.batch_size, run.config.train.micro_batch);
    if (measured.count(key) == 0) measured[key] = measure_step_seconds(run, chosen_isa(), world()) / speed;
    step_seconds.push_back(measured[key]);
  }
  note_rates(shapes, flags);
  const std::vector<double> budgets = budgets_of(a, shapes, step_seconds);
  Plan plan;
  plan.sweep.floor = data.floor();
  plan.sweep.command_line = a.command_line;
  std::set<std::string> names;
  for (const double budget : budgets) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      for (int64_t seed = 0; seed < a.seeds; ++seed) {
        SweepRun run = shapes[i];
        run.budget = budget;
        run.seed = run.config.train.seed += seed;
        set_steps(run, budget > 0 ? steps_for(budget, run.flops_per_token, step_tokens(run))
                                  : run.config.train.steps);
        run.name = run_name(run.point, budget, run.seed, budgets.size() > 1, a.seeds > 1);
        if (!names.insert(run.name).second) fail_usage("two runs have the same name {}", run.name);
        plan.seconds.push_back(expected_seconds(run, step_seconds[i]));
        plan.sweep.runs.push_back(std::move(run));
      }
    }
  }
  plan.sweep.results.resize(plan.sweep.runs.size());
  return plan;
}

std::string describe(const Plan& plan) {
  TextTable table{{"run", "shape", "parameters", "steps", "tokens", "tokens/param", "FLOPs", "expected"}};
  std::vector<double> flops;
  for (size_t i = 0; i < plan.sweep.runs.size(); ++i) {
    const SweepRun& run = plan.sweep.runs[i];
    table.rows.push_back({run.name, shape_name(run), format_count(run.parameters),
                          format_thousands(run.config.train.steps), format_count(run.tokens),
                          fmt::format("{:.1f}", run.tokens / run.parameters), format_count(run.flops),
                          format_duration(plan.seconds[i])});
    flops.push_back(run.flops);
  }
  std::string text = format_table(table) +
                     fmt::format("{}, about {} in total\n", format_amount(std::ssize(plan.sweep.runs), "run"),
                                 format_duration(longest_share(flops, plan.seconds, world().size())));
  const double difference = flops_difference(plan.sweep.runs);
  if (difference > 0.01)
    text += fmt::format(
        "the FLOPs of the runs differ by up to {}, because runs consist of whole steps; use larger budgets "
        "or a smaller --batch-size to reduce the difference\n",
        format_percent(difference));
  for (const SweepRun& run : plan.sweep.runs) {
    if (run.config.train.steps >= 50) continue;
    return text + fmt::format("{} has only {}, which is too few for a conclusion\n", run.name,
                              format_amount(run.config.train.steps, "step"));
  }
  return text;
}

void check(const SweepArguments& a, const ConfigFlags& flags) {
  if (a.out.empty() && !a.dry_run)
    fail_usage("--out is missing: name the folder of the sweep, for example --out sweep");
  if (a.resume) {
    if (!flags.given().empty() || !a.over.empty() || !a.preset.empty() || !a.config.empty() ||
        !a.flops.empty() || a.minutes > 0 || a.levels > 1 || a.seeds > 1 || a.iso_params > 0 || a.dry_run)
      fail_usage("--resume uses the plan in --out; leave out all other options");
    return;
  }
  if (a.over.empty()) fail_usage("--over is missing: name what to sweep, for example --over n_layer=2,4,8");
  if (!(a.minutes >= 0 && a.minutes <= 1e6))
    fail_usage("--minutes: expected a number from 0 to 1e6, found {}", a.minutes);
  const int ways = (a.flops.empty() ? 0 : 1) + (a.minutes > 0 ? 1 : 0) + (flags.is_given("steps") ? 1 : 0);
  if (ways > 1) fail_usage("--flops, --minutes and --steps: expected one of them");
  if (a.levels > 1 && !(a.minutes > 0))
    fail_usage("--levels: requires --minutes; with --flops, list the budgets");
  if (flags.is_given("eval_every"))
    fail_usage("--eval-every: a sweep always evaluates eight times in every run");
}

void check_folder(const SweepArguments& a) {
  if (!a.resume && std::filesystem::exists(a.out + "/sweep.json"))
    fail("{} already contains a sweep; resume it with --resume, or choose a different --out", a.out);
  for (const char* name : {"runs", "fit.json", "sweep.svg", "sweep.html"}) {
    if (!a.resume && std::filesystem::exists(a.out + "/" + name))
      fail("{}/{} already exists, but is not a sweep; choose a different --out", a.out, name);
  }
}

Sweep chosen_sweep(const SweepArguments& a, const ConfigFlags& flags, double speed) {
  if (a.resume) return read_sweep(a.out);
  Plan plan = plan_sweep(a, flags, speed);
  write_note(describe(plan));
  return std::move(plan.sweep);
}

// Returns the speed of a rank while all ranks run, relative to a rank that runs alone. It is below 1 if ranks
// share cores. Rank 0 measures step times alone, so these times are divided by the returned speed. Must be
// called by all ranks.
double speed_of_one(const SweepArguments& a, const ConfigFlags& flags) {
  return speed_beside_others(world(), thread_count(resolve(a, flags, {}).train.threads, world()));
}

// Rank 0 measures and plans the sweep; the other ranks read the plan that rank 0 has written.
Sweep agreed_sweep(const SweepArguments& a, const ConfigFlags& flags) {
  const double speed = a.resume ? 1 : speed_of_one(a, flags);
  constexpr const char* kWhat = "the plan of a sweep by rank 0";
  if (!is_first_process()) {
    barrier(world(), kWhat);
    return read_sweep(a.out);
  }
  check_folder(a);
  Sweep sweep = chosen_sweep(a, flags, speed);
  if (world().size() > 1) write_sweep(a.out, sweep);
  barrier(world(), kWhat);
  return sweep;
}

void show(const SweepArguments& a, const Sweep& sweep, bool finished) {
  const Findings findings = find_out(sweep);
  if (a.json) {
    write_output(findings_json(sweep, findings).dump(2) + "\n");
  } else {
    std::string text = format_table(result_table(sweep, findings)) + "\n";
    for (const std::string& sentence : findings.sentences)
      text += sentence + ".\n";
    write_output(text + findings.fit_note + "\n");
  }
  write_note(finished ? fmt::format("page: {}/sweep.html\n", a.out)
                      : fmt::format("interrupted; resume with: {} sweep --out {} --resume\n", program(),
                                    shell_quoted(a.out)));
  if (finished && !a.json && !findings.means.empty())
    write_next(use_command(a.out + "/runs/" + sweep.runs[findings.means[0].run].name));
}

int run(const SweepArguments& a, const ConfigFlags& flags) {
  check(a, flags);
  Communicator& processes = world();
  if (a.dry_run && !a.resume) {
    const double speed = speed_of_one(a, flags);
    if (is_first_process()) write_output(describe(plan_sweep(a, flags, speed)));
    write_note("next: the same command without --dry-run\n");
    return 0;
  }
  install_ending_signals();
  std::unique_ptr<FolderLock> lock;
  if (is_first_process()) lock.reset(new FolderLock(FolderLock::of_folder(a.out, write_note)));
  Sweep sweep = agreed_sweep(a, flags);
  install_graceful_interrupt(is_first_process() ? "finishing the step and saving" : nullptr,
                             processes.size() > 1);
  const bool finished = run_sweep(sweep, {.folder = a.out,
                                          .isa = chosen_isa(),
                                          .interrupted = interrupted,
                                          .note = write_note,
                                          .processes = &processes});
  if (is_first_process()) show(a, sweep, finished);
  return finished ? 0 : kInterruptedStatus;
}

// Replaces the key of an axis by this program's name for it: "n_layer=1,2" for "layers=1,2".
std::string with_own_key(const CLI::App& app, const std::string& axis) {
  const size_t equals = std::min(axis.find('='), axis.size());
  return config_key_named(app, axis.substr(0, equals)) + axis.substr(equals);
}

void add_grid_options(CLI::App& app, SweepArguments& a) {
  add(app,
      {.flags = "--over",
       .value = "KEY=A,B,...",
       .help = "Config key and its values: n_layer=2,4,8; can be repeated",
       .is_repeated = true,
       .common = true},
      a.over);
  add(app,
      {.flags = "--flops",
       .value = "X,...",
       .help = "Training FLOPs of each run, one or several budgets: 1e12,4e12",
       .is_repeated = true,
       .common = true},
      a.flops);
  add(app,
      {.flags = "--minutes",
       .value = "X",
       .help = "Time of all runs together in minutes. All runs of a budget have the same FLOPs. 0: no limit",
       .common = true},
      a.minutes);
  add(app,
      {.flags = "--levels",
       .value = "N",
       .help = "With --minutes: number of budgets, each half of the previous one",
       .min = 1,
       .max = 8},
      a.levels);
  add(app,
      {.flags = "--seeds",
       .value = "N",
       .help = "Number of runs with different seeds for each setting, to estimate the noise",
       .min = 1,
       .max = 100,
       .common = true},
      a.seeds);
  add(app,
      {.flags = "--iso-params",
       .value = "N",
       .help = "Choose n_embd so that all models have about this number of parameters",
       .fallback = "off",
       .min = 1,
       .max = 0x1p40,
       .common = true},
      a.iso_params);
}

}  // namespace

Command add_sweep_command(CLI::App& root, const std::string& command_line) {
  auto a = std::make_shared<SweepArguments>();
  a->command_line = command_line;
  CLI::App* app = add_command(root, "sweep", "train a family of small models and compare them", kSweepFooter);
  add_grid_options(*app, *a);
  add_preset_option(*app, a->preset);
  add_config_option(*app, a->config);
  add(*app,
      {.flags = "-o,--out",
       .value = "DIR",
       .help = "Folder of the sweep",
       .kind = ValueKind::path,
       .aliases = kOutAliases,
       .common = true,
       .on_resume = true},
      a->out);
  add(*app, {.flags = "--resume", .help = "Resume the sweep in --out", .common = true}, a->resume);
  add(*app,
      {.flags = "--dry-run", .help = "Print the list of runs and exit", .common = true, .on_resume = true},
      a->dry_run);
  add_json_option(*app, a->json);
  const auto flags = std::make_shared<ConfigFlags>(*app, [](const KeyInfo&) { return true; });
  return {app, [a, flags, app] {
            for (std::string& axis : a->over)
              axis = with_own_key(*app, axis);
            return run(*a, *flags);
          }};
}

}  // namespace gpt
