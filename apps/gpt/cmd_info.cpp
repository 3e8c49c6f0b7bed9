#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "adapter_commands.h"
#include "base/error.h"
#include "base/format.h"
#include "base/ranges.h"
#include "command.h"
#include "config_flags.h"
#include "convert/adapter_files.h"
#include "info_report.h"
#include "model/presets.h"
#include "options.h"
#include "output.h"
#include "report/table.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char* kInfoFooter = R"(Examples:
  gpt info                                     the presets
  gpt info gpt2
  gpt info gpt2 --qkv-bias false --out-bias false
  gpt info run --json
  gpt info llama3-8b --devices 8               what ZeRO shares out
  gpt info gpt2 --tensors                      names and shapes of the parameters
  gpt info nanochat --summary                  components, data flow, formulas, totals
  gpt info mini-gpt --schedule                 the learning rate with bars
  gpt info mini-gpt --schedule cosine --steps 10000 --warmup 200 --at 0,200,5000
  gpt info gpt2 --compare gpt2-medium llama3-8b
  gpt info mini-gpt --compare :n_layer=2,n_embd=512,n_head=8 :n_layer=8,n_embd=256,n_head=4
  gpt info nanochat-d20 --compare :n_kv_head=2 :n_kv_head=1

A preset comes before a folder of the same name; write ./gpt2 for the folder. Any key of the architecture
can be changed with its flag, for one model of a comparison with NAME:key=value,key=value (no NAME: that of
MODEL). Nothing is loaded: gpt3-175b takes no longer than tiny.)";

struct InfoArguments {
  std::string model;
  std::vector<std::string> compare;
  std::vector<int64_t> at;
  bool schedule = false;
  std::string schedule_kind;
  int64_t batch_size = 0, devices = 1;
  bool summary = false, tensors = false, json = false;
};

// Returns the presets ordered by size. The family nanochat-dN has a single line.
std::string preset_list(const ConfigFlags& flags) {
  std::multimap<int64_t, std::vector<std::string>> rows;
  for (const std::string& name : preset_names()) {
    if (name.starts_with("nanochat-d") && name.find_first_not_of("0123456789", 10) == std::string::npos &&
        name != "nanochat-d4")
      continue;
    const InfoSubject s = find_info_subject({.spec = name}, flags);
    std::string shown = name, size = format_count(s.counts.total), purpose = preset_purpose(name);
    if (name == "nanochat-d4") {
      shown = "nanochat-dN";
      size.insert(0, "from ");
      purpose = "nanochat of depth N = 4, 6, ... 32";
    }
    rows.insert({s.counts.total, {shown, size, purpose}});
  }
  TextTable table{.columns = {"preset", "parameters", "for"}};
  for (const auto& [parameters, cells] : rows)
    table.rows.push_back(cells);
  return format_table(table);
}

void check(const InfoArguments& a) {
  constexpr int64_t kMost = 1 << 20;
  if (a.batch_size < 0 || a.batch_size > kMost)
    fail_usage("--batch-size: expected 1 to {}, found {}", kMost, a.batch_size);
  check_range("--devices", a.devices, 1, kMost);
  for (const int64_t step : a.at) {
    if (step < 0) fail_usage("--at: expected steps of 0 and more, found {}", step);
  }
  const bool schedule = a.schedule || !a.at.empty();
  if (schedule && !a.compare.empty()) fail_usage("--schedule: cannot be combined with --compare");
  if ((schedule || a.summary || a.tensors) && a.model.empty() && a.compare.empty())
    fail_usage("{}: requires a MODEL, for example gpt info gpt2", a.summary   ? "--summary"
                                                                  : a.tensors ? "--tensors"
                                                                              : "--schedule");
  if (a.tensors && a.json) fail_usage("--tensors: cannot be combined with --json");
}

std::vector<InfoSubject> find_subjects(const InfoArguments& a, const ConfigFlags& flags) {
  std::vector<std::string> specs = a.compare;
  if (!a.model.empty()) specs.insert(specs.begin(), a.model);
  // Specs without a name are based on the first model, even if it was given after --compare.
  const std::string model = specs.empty() ? "" : specs.front().substr(0, specs.front().find(':'));
  std::vector<InfoSubject> subjects;
  for (const std::string& spec : specs) {
    subjects.push_back(find_info_subject({.spec = spec,
                                          .model = model,
                                          .schedule = a.schedule_kind,
                                          .batch_size = a.batch_size,
                                          .devices = a.devices},
                                         flags));
    if (!subjects.back().assumed_vocab) continue;
    write_note(fmt::format("note: the vocabulary of {} comes from its tokenizer; counted with {} tokens\n",
                           spec, subjects.back().counts.config.vocab_size));
  }
  return subjects;
}

std::string text_of(const InfoArguments& a, const std::vector<InfoSubject>& subjects) {
  if (a.schedule || !a.at.empty()) return schedule_table(subjects.front().train, a.at);
  if (a.tensors) return fmt::format("{}", fmt::join(transformed(subjects, tensor_table), "\n"));
  if (a.summary) {
    return fmt::format("{}", fmt::join(transformed(subjects, quick_reference), "\n"));
  }
  if (subjects.size() == 1) return describe_subject(subjects.front());
  std::string text = compare_subjects(subjects);
  for (const InfoSubject& s : subjects) {
    if (s.devices > 1) text += "\n" + s.name + "\n" + zero_table(s);
  }
  return text;
}

int run(const InfoArguments& a, const ConfigFlags& flags) {
  check(a);
  if (!a.model.empty() && !is_preset(a.model) && is_adapter(a.model))
    return describe_adapter(a.model, a.json);
  const std::vector<InfoSubject> subjects = find_subjects(a, flags);
  if (subjects.empty()) {
    write_output(a.json ? json(preset_names()).dump() + "\n" : preset_list(flags));
    if (!a.json) write_next({"gpt", "info", "tiny"});
    return 0;
  }
  if (!a.json) {
    write_output(text_of(a, subjects));
    const std::string& name = subjects.front().name;
    if (is_preset(name)) {
      write_next({"gpt", "plan", "--preset", name, "--data", "tales"});
    } else if (std::filesystem::exists(name)) {
      write_next({"gpt", "bench", name});
    }
    return 0;
  }
  const json out = subjects.size() == 1 ? subject_json(subjects[0])
                                        : json{{"models", transformed(subjects, subject_json)}};
  write_output(out.dump(2) + "\n");
  return 0;
}

// Returns true for the keys of the architecture and of the learning rate schedule.
bool is_info_key(const KeyInfo& key) {
  return key.is_model || key.name == "steps" || key.name == "warmup" || key.name == "lr" ||
         key.name == "min_lr";
}

}  // namespace

Command add_info_command(CLI::App& root) {
  auto a = std::make_shared<InfoArguments>();
  CLI::App* app = add_command(root, "info", "parameters, FLOPs and memory of a model or preset", kInfoFooter);
  add_model_option(*app, a->model, "Preset, model folder or file. Without it, the presets are listed",
                   ValueKind::model_or_preset);
  add(*app,
      {.flags = "--compare",
       .value = "MODEL ...",
       .help = "More models to show next to the first one",
       .kind = ValueKind::model_or_preset,
       .common = true},
      a->compare);
  add(*app,
      {.flags = "--batch-size",
       .value = "N",
       .help = "Number of sequences per training step and of inference",
       .fallback = "the preset's for training, 1 for inference",
       .common = true},
      a->batch_size);
  add(*app,
      {.flags = "--devices",
       .value = "N",
       .help = "Number of devices that share the training",
       .fallback = "1",
       .common = true},
      a->devices);
  add(*app, {.flags = "--summary", .help = "Show components, data flow, formulas and totals", .common = true},
      a->summary);
  add(*app,
      {.flags = "--tensors", .help = "List the parameters with the names that --freeze and --lr-scale match"},
      a->tensors);
  auto set_schedule = [a](const CLI::results_t& results) {
    a->schedule = true;
    a->schedule_kind = results.empty() ? "" : results.back();
    return true;
  };
  OptionSpec schedule = spec_of_key(*std::ranges::find(config_keys(), "schedule", &KeyInfo::name));
  schedule.help = "Show the learning rate schedule as a chart";
  schedule.fallback = "the preset's";
  schedule.is_open = true;
  schedule.common = true;
  add(*app, schedule, set_schedule)->expected(0, 1);
  add(*app, {.flags = "--at", .value = "N,...", .help = "Steps to show in the schedule", .delimiter = ','},
      a->at)
      ->allow_extra_args(true)
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  add_json_option(*app, a->json);
  const auto flags = std::make_shared<ConfigFlags>(*app, is_info_key);
  return {app, [a, flags] { return run(*a, *flags); }};
}

}  // namespace gpt
