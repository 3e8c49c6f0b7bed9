#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/folder_lock.h"
#include "base/json.h"
#include "base/problems.h"
#include "command.h"
#include "config_flags.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "plan_report.h"
#include "run/trainer.h"
#include "run_folder.h"
#include "sweep/loss_law.h"
#include "training_page.h"
#include "world.h"

namespace gpt {
namespace {

constexpr const char* kTrainFooter = R"(Examples:
  gpt train book.txt                                    write runs/1, with the preset that fits the text
  gpt train --preset tiny --data tales --out run
  gpt train --preset nanogpt-cpu --data input.txt --out run --seed 2
  gpt train a.txt b.txt --preset tiny --out run         several files; a.txt=0.7 b.txt=0.3 mixes by weight
  gpt train --data book.txt --tokenizer char --n-layer 4 --out run
  gpt train --out run --resume                          continue after Ctrl-C, a kill or --stop-after
  gpt train --out run --resume --steps 5000             extend a run to 5,000 steps
  gpt train --out run --resume --serve 8080             and watch it in a browser
  gpt train --init-from run --data more.txt --out run2  start from a trained model
  gpt train --preset mini-gpt --print-config            every setting with its final value

Settings are read from these sources, and later sources override earlier ones: preset, --config FILE, environment
(GPT_LR=1e-3), options. Ctrl-C, SIGTERM and a closed terminal finish the step, save a checkpoint and exit with status 130; a second Ctrl-C quits immediately.)";

struct TrainArguments {
  std::string preset, config, out, init_from, fit;
  std::optional<int64_t> serve;  // port of the training page
  bool resume = false, print_config = false, verbose = false;
  std::string command_line;
};

RunConfig resumed_config(const TrainArguments& a, const ConfigFlags& flags) {
  if (!a.preset.empty() || !a.config.empty() || !a.init_from.empty()) {
    fail_usage("--resume uses the configuration in --out; leave out --preset, --config and --init-from");
  }
  const std::string path = a.out + "/config.json";
  if (!std::filesystem::exists(path))
    fail_not_found("cannot resume: {} does not exist; --out must be the folder of an earlier run", path);
  if (std::filesystem::exists(a.out + "/finetune.json"))
    fail("{0} is a fine-tuning run; resume it with gpt finetune --resume --out {0}", a.out);
  return resumed_run_config(read_run_config(path), path, flags);
}

TrainSources given_sources(const TrainArguments& a) {
  return {.preset = a.preset, .config = a.config, .init_from = a.init_from};
}

// Returns the given sources, or the preset that `gpt plan` recommends for the text if nothing names a model.
TrainSources chosen_sources(const TrainArguments& a, const ConfigFlags& flags) {
  if (names_model(given_sources(a), flags)) return given_sources(a);
  return recommended_sources(flags);
}

// Returns true if a flag, the environment or the config file sets the tokenizer. A preset's tokenizer does
// not count, because the tokenizer of --init-from overrides it.
bool gives_tokenizer(const TrainArguments& a, const ConfigFlags& flags) {
  return flags.is_set("tokenizer") || (!a.config.empty() && read_json_file(a.config).contains("tokenizer"));
}

void check(const TrainArguments& a, const ConfigFlags& flags) {
  Problems problems;
  if (a.resume) {
    problems.collect([&] {
      if (a.out.empty()) fail_usage("--resume: requires --out DIR, the folder of the run");
    });
  } else {
    const RunConfig config = new_run_config(given_sources(a), flags, problems);
    if (!a.print_config) problems.collect([&] { check_sources(config.train, a.init_from); });
  }
  problems.report();
}

int print_config(const TrainArguments& a, const ConfigFlags& flags) {
  if (a.resume) {
    write_output(run_config_json(resumed_config(a, flags)).dump(2) + "\n");
    return 0;
  }
  const TrainConfig given = new_run_config(given_sources(a), flags).train;
  const bool has_text = Problems().collect([&] { check_sources(given, a.init_from); });
  const TrainSources sources = has_text ? chosen_sources(a, flags) : given_sources(a);
  write_output(run_config_json(new_run_config(sources, flags)).dump(2) + "\n");
  return 0;
}

int run(TrainArguments a, const ConfigFlags& flags) {
  if (a.print_config) return print_config(a, flags);
  install_ending_signals();
  world();  // fails before any output if the ranks cannot be connected
  TrainRequest request;
  if (!a.resume) {
    const TrainSources sources = chosen_sources(a, flags);
    request.config = new_run_config(sources, flags);
    note_choices(sources, flags, request.config);
  }
  const std::unique_ptr<FolderLock> lock = open_run(a.out, a.resume, a.command_line, request);
  a.out = request.out;
  std::unique_ptr<TrainingPage> page;
  if (a.serve && is_first_process()) {
    page = std::make_unique<TrainingPage>(a.out, static_cast<int>(*a.serve));
    write_note("showing the run at " + page->url() + "\n");
  }
  if (a.resume) request.config = resumed_config(a, flags);
  share_run(request.config.train, request.processes->size(), a.resume);
  request.init_from = a.init_from;
  request.tokenizer_given = !a.init_from.empty() && gives_tokenizer(a, flags);
  request.verbose = a.verbose;
  if (!a.fit.empty())
    request.forecast = [fit = read_loss_fit(a.fit)](const RunPlan& plan) { return forecast_loss(fit, plan); };
  const RunOutcome outcome = run_training(request, interrupted);
  if (outcome.finished) write_next(use_command(a.out));
  return outcome.interrupted ? kInterruptedStatus : 0;
}

}  // namespace

Command add_train_command(CLI::App& root, const std::string& command_line) {
  auto a = std::make_shared<TrainArguments>();
  a->command_line = command_line;
  CLI::App* app = add_command(root, "train", "train a model, or resume a run", kTrainFooter);
  add_preset_option(*app, a->preset, "the preset that gpt plan recommends");
  add_config_option(*app, a->config);
  add_run_options(*app, a->out, "Output folder", a->resume);
  add(*app,
      {.flags = "--init-from",
       .value = "MODEL",
       .help = "Start from the weights of a model",
       .kind = ValueKind::model,
       .common = true},
      a->init_from);
  add(*app,
      {.flags = "--fit",
       .value = "SWEEP",
       .help = "Predict the loss for the report with the scaling law of a sweep: its folder or fit.json",
       .kind = ValueKind::path,
       .on_resume = true},
      a->fit);
  add(*app,
      {.flags = "--serve",
       .value = "PORT",
       .help = "Port of a web page that shows the run on this machine. 0: any free port",
       .min = 0,
       .max = 65535,
       .on_resume = true},
      a->serve);
  add(*app,
      {.flags = "--verbose",
       .help = "Print all settings, data files, batches and the machine at the start",
       .aliases = "-v",
       .on_resume = true},
      a->verbose);
  add(*app,
      {.flags = "--print-config",
       .help = "Print the complete configuration as JSON and exit",
       .on_resume = true},
      a->print_config);
  const auto flags = std::make_shared<ConfigFlags>(*app, [](const KeyInfo&) { return true; });
  return {app, [a, flags] { return run(*a, *flags); }, [a, flags] { check(*a, *flags); }};
}

}  // namespace gpt
