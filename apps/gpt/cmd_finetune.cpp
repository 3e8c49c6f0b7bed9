#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/folder_lock.h"
#include "base/problems.h"
#include "command.h"
#include "config_flags.h"
#include "finetune/examples.h"
#include "finetune/rewards.h"
#include "finetune/tune_report.h"
#include "finetune/tuner.h"
#include "interrupt.h"
#include "model/json_value.h"
#include "model/model_source.h"
#include "options.h"
#include "output.h"
#include "run_folder.h"
#include "text/chat_template.h"
#include "world.h"

namespace gpt {
namespace {

constexpr const char* kFinetuneFooter = R"(Examples:
  gpt finetune run --task classify --data reviews.csv --out tuned
  gpt finetune run --task choose --data train.jsonl --val-data dev.jsonl --out tuned --aux-weight 0
  gpt finetune run --task chat --data talks.jsonl --template chatml --out tuned
  gpt finetune run --task dpo --data pairs.jsonl --out tuned
  gpt finetune run --task grpo --data questions.jsonl --reward number --out tuned
  gpt finetune --out tuned --resume                       continue after Ctrl-C, a kill or --stop-after

Training examples are JSON lines:
  classify  {"text": "...", "label": "..."}
  entail    {"premise": "...", "hypothesis": "...", "label": "..."}
  similar   {"text1": "...", "text2": "...", "label": 3.5}; labels that are not numbers are classes
  choose    {"context": "...", "choices": ["...", "..."], "label": 0}
  chat      {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
  dpo       {"prompt": "...", "chosen": "...", "rejected": "..."}
  grpo      {"prompt": "...", "answer": "..."}: --reward scores the response
Examples of the first four tasks can also be .csv or .tsv files whose first row has these names. Their models have a
classification head, which gpt classify uses.

A tenth of the examples is held out for evaluation (--val-fraction), unless --val-data names other files. DIR/best is the
model with the best evaluation score, DIR/last the newest one.)";

struct FinetuneArguments {
  TuneConfig config;
  std::string file, out;
  bool resume = false;
  std::string command_line;
};

// Returns true for the training keys that fine-tuning uses.
bool is_wanted(const KeyInfo& key) {
  if (key.is_model) return key.name.ends_with("dropout");
  return reads_training_key(key.name);
}

// Returns the defaults that the help displays for settings whose defaults for fine-tuning differ from those
// for training.
std::map<std::string, std::string> shown_defaults() {
  std::map<std::string, std::string> shown;
  const nlohmann::json defaults = tuning_defaults("classify"), dpo = tuning_defaults("dpo"),
                       grpo = tuning_defaults("grpo");
  const auto text = [](const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : fmt::format("{:g}", value.get<double>());
  };
  for (const auto& [key, value] : defaults.items()) {
    std::string all = text(value);
    for (const auto& [task, other] : {std::pair{"dpo", &dpo}, {"grpo", &grpo}}) {
      if ((*other)[key] != value) all += fmt::format("; {}: {}", task, text((*other)[key]));
    }
    shown[key] = all;
  }
  shown["lr"] += fmt::format("; times 10 with --lora-rank; times {} / n_embd", kRateWidth);
  shown["batch_size"] += fmt::format("; smaller if the run would have fewer than {} steps", kFewestSteps);
  shown["dropout"] = "dropout of the model; dpo and grpo: 0";
  for (const char* part : {"embd_dropout", "attn_dropout", "resid_dropout"})
    shown[part] = "dropout";
  shown["steps"] = "from --epochs";
  shown["eval_every"] = "one epoch";
  return shown;
}

void check_task(const FinetuneArguments& a) {
  if (a.config.task.empty()) fail_usage("--task is missing: expected {}", fmt::join(task_names(), ", "));
  check_choice("--task", a.config.task, task_names());
  if (a.config.lora_rank != 0 && find_task(a.config.task))
    fail_usage("--lora-rank: not available for tasks with a classification head; leave it out for --task {}",
               a.config.task);
}

// Sets the config of a new run, and records which of its settings were given.
void make_config(const FinetuneArguments& a, const ConfigFlags& flags, TuneRequest& request) {
  Settings settings;
  const ModelConfig model = config_of_model(a.config.model);
  settings.add_model(model);
  settings.add_defaults(tuning_defaults(a.config.task, a.config.lora_rank > 0, model.n_embd));
  if (!a.file.empty()) settings.add_file(a.file);
  flags.apply_environment(settings);
  flags.apply_flags(settings);
  request.steps_given = settings.is_given("steps");
  request.eval_given = settings.is_given("eval_every");
  request.batch_given = settings.is_given("batch_size");
  request.micro_given = settings.is_given("micro_batch");
  TuneConfig& config = request.config = a.config;
  // The path is absolute, so that --resume works from any folder. It is resolved to a checkpoint, so that the
  // resumed run uses the same model even if that model's own run has continued.
  config.model = std::filesystem::absolute(resolve_model_path(config.model)).lexically_normal().string();
  config.run = settings.resolve();
  check_used(config);
}

void check(const FinetuneArguments& a, const ConfigFlags& flags) {
  Problems problems;
  if (a.resume) {
    if (a.out.empty()) fail_usage("--resume: requires --out DIR, the folder of the run");
    return;
  }
  const bool has_model = problems.collect([&] { require_argument(a.config.model, "MODEL", "finetune"); });
  const bool has_task = problems.collect([&] { check_task(a); });
  if (!flags.is_set("data") && a.file.empty())
    problems.collect([] { fail_usage("--data is missing: name the file with the examples"); });
  if (has_model && has_task) {
    problems.collect([&] {
      TuneRequest request;
      make_config(a, flags, request);
    });
  }
  problems.report();
}

TuneConfig resumed_config(const FinetuneArguments& a, const ConfigFlags& flags) {
  if (!a.config.model.empty() || !a.file.empty())
    fail_usage("--resume uses the settings in --out; leave out MODEL and --config");
  if (!std::filesystem::exists(a.out + "/finetune.json"))
    fail("cannot resume: {} is not the folder of a fine-tuning run", a.out);
  const nlohmann::json given = tune_config_json(a.config), unset = tune_config_json({});
  for (const auto& [key, value] : given.items()) {
    if (value != unset[key])
      fail_usage("{} cannot change when a run is resumed", ConfigFlags::flag_name(key));
  }
  TuneConfig config = read_tune_config(a.out);
  config.run = resumed_run_config(config.run, a.out + "/config.json", flags);
  return config;
}

int run(FinetuneArguments a, const ConfigFlags& flags) {
  install_ending_signals();
  TuneRequest request;
  const std::unique_ptr<FolderLock> lock = open_run(a.out, a.resume, a.command_line, request);
  a.out = request.out;
  if (a.resume) {
    request.config = resumed_config(a, flags);
    share_run(request.config.run.train, world().size(), true);
  } else {
    make_config(a, flags, request);
    if (request.config.run.train.data.empty())  // neither as a flag nor in --config
      fail_usage("--data is missing: name the file with the examples");
    request.share = [](TrainConfig& c) { share_run(c, world().size(), false); };
  }
  const RunOutcome outcome = run_tuning(request, interrupted);
  const std::string model = outcome.has_best ? a.out + "/best" : a.out;
  if (outcome.finished) write_next(use_command(request.config, model));
  return outcome.interrupted ? kInterruptedStatus : 0;
}

}  // namespace

Command add_finetune_command(CLI::App& root, const std::string& command_line) {
  auto a = std::make_shared<FinetuneArguments>();
  a->command_line = command_line;
  CLI::App* app = add_command(
      root, "finetune", "fine-tune a model: labelled tasks, chat, preferences, rewards", kFinetuneFooter);
  TuneConfig& c = a->config;
  add_model_option(*app, c.model, "Model folder, run folder or .gguf file");
  add_run_options(*app, a->out, "Folder for the fine-tuned model, metrics and report", a->resume);
  add_config_option(*app, a->file);
  app->option_defaults()->group("fine-tuning");
  visit_tune_keys(c, [&](const Key& key, auto& field) {
    if (key.name != std::string_view("model")) add(*app, spec_of_key(key_info(key, field)), field);
  });
  app->option_defaults()->group("Options");
  spec_of(*app->get_option("--template")).choices = chat_format_names();
  spec_of(*app->get_option("--template")).is_open = true;  // the command itself checks the name
  const auto flags = std::make_shared<ConfigFlags>(*app, is_wanted, shown_defaults());
  spec_of(*app->get_option("--data")).help =
      "Files with examples. a.jsonl=0.7 b.jsonl=0.3 mixes conversations by weight";
  spec_of(*app->get_option("--val-data")).help = "Files with examples for evaluation";
  spec_of(*app->get_option("--val-data")).fallback = "a part of the data";
  spec_of(*app->get_option("--zero")).help =
      "ZeRO stage. 1 shards the optimizer state between ranks, 2 also the gradients. Results do not change";
  return {app, [a, flags] { return run(*a, *flags); }, [a, flags] { check(*a, *flags); }};
}

}  // namespace gpt
