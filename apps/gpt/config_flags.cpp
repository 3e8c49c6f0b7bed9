#include "config_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/format.h"
#include "base/problems.h"
#include "base/ranges.h"
#include "convert/gguf_vocab.h"
#include "data/text_blocks.h"
#include "io/gguf.h"
#include "model/model_files.h"
#include "model/model_source.h"
#include "model/presets.h"
#include "options.h"
#include "output.h"
#include "run/resume.h"
#include "run/run_data.h"
#include "text/tokenizer.h"

namespace gpt {
namespace {

std::string with_dashes(std::string key) {
  std::ranges::replace(key, '_', '-');
  return key;
}

// Returns the definition of the flag of a config key.
OptionSpec flag_spec(const KeyInfo& key, const std::map<std::string, std::string>& shown) {
  OptionSpec spec = spec_of_key(key);
  if (key.name == "threads") spec.flags = "-t," + spec.flags;
  if (key.name == "data") spec.flags += ",DATA";
  if (const auto own = shown.find(key.name); own != shown.end()) spec.fallback = own->second;
  spec.is_config_key = true;
  spec.on_resume = key.name == "threads" || key.name == "device";
  return spec;
}

}  // namespace

std::string variable_name(std::string key) {
  std::ranges::replace(key, '-', '_');
  std::ranges::transform(key, key.begin(), [](unsigned char c) { return std::toupper(c); });
  return "GPT_" + key;
}

std::string ConfigFlags::flag_name(const std::string& key) {
  return "--" + with_dashes(key);
}

ConfigFlags::ConfigFlags(CLI::App& app, const Wanted& wanted, const std::map<std::string, std::string>& shown)
    : values_(std::make_shared<std::map<std::string, std::vector<std::string>>>()) {
  for (const KeyInfo& key : config_keys()) {
    if (!wanted(key)) continue;
    keys_.push_back(key);
    const auto store = [values = values_, name = key.name](const CLI::results_t& results) {
      (*values)[name] = results;
      return true;
    };
    CLI::Option* option = add(app, flag_spec(key, shown), store);
    option->group(key.group);
    if (key.name == "include" || key.name == "exclude") {  // data files may follow as positional arguments
      option->expected(1, CLI::detail::expected_max_vector_size)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(false);
    } else if (key.is_list()) {
      option->expected(1, 1 << 20)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      if (key.name == "data") option->allow_extra_args();  // also accepts positional arguments
    } else if (key.is_bool()) {
      option->expected(0, 1);
    } else {
      option->expected(1);
    }
  }
}

void ConfigFlags::apply(Settings& settings, const KeyInfo& key, const std::vector<std::string>& values,
                        const std::string& source) const {
  if (key.is_list()) {
    settings.add_json({{key.name, values}}, source);
    return;
  }
  std::string value = values.empty() ? "" : values.back();
  if (key.name == "device") require_device(source, value);
  if (key.is_bool()) {
    value = lower_case(value);  // Python writes True
    if (value.empty() || value == "1") value = "true";
    if (value == "0") value = "false";
    if (value != "true" && value != "false")
      fail_usage("{}: expected true or false, found \"{}\"", source, value.substr(0, 64));
  }
  settings.add_text(key.name, value, source);
}

void ConfigFlags::apply_environment(Settings& settings, const std::vector<std::string>& only) const {
  settings.begin_source();
  Problems problems;
  for (const KeyInfo& key : keys_) {
    if (!only.empty() && std::ranges::find(only, key.name) == only.end()) continue;
    const std::string variable = variable_name(key.name);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    problems.collect([&] { apply(settings, key, {value}, variable); });
  }
  problems.report();
}

void ConfigFlags::note_unused_environment(const RunConfig& run, const std::vector<std::string>& used) const {
  const nlohmann::json kept = run_config_json(run);
  for (const KeyInfo& key : keys_) {
    const std::string variable = variable_name(key.name);
    const char* value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0' || is_given(key.name) ||
        std::ranges::find(used, key.name) != used.end())
      continue;
    Settings settings;
    settings.add_json(kept, "the run");
    apply(settings, key, {value}, variable);
    if (run_config_json(settings.resolve())[key.name] != kept[key.name])
      write_note(fmt::format("note: {}={} has no effect: the resumed run keeps {} = {}\n", variable, value,
                             key.name, kept[key.name].dump()));
  }
}

void ConfigFlags::apply_flags(Settings& settings) const {
  settings.begin_source();
  Problems problems;
  for (const KeyInfo& key : keys_) {
    const auto found = values_->find(key.name);
    if (found == values_->end()) continue;
    problems.collect([&] { apply(settings, key, found->second, flag_name(key.name)); });
  }
  problems.report();
}

bool ConfigFlags::is_set(const std::string& key) const {
  const char* const value = std::getenv(variable_name(key).c_str());
  return is_given(key) || (value != nullptr && *value != '\0');
}

std::vector<std::string> ConfigFlags::given() const {
  return transformed(*values_, [](const auto& entry) { return entry.first; });
}

void note_own_rates(const std::string& flag) {
  write_note(
      fmt::format("note: {} only sets the displayed learning rate: with muon-nanochat, each parameter group "
                  "has its own rate "
                  "(--muon-lr, --embedding-lr, --head-lr, --vector-lr)\n",
                  flag));
}

namespace {

// Writes a note for each given flag that has no effect because of other settings.
void note_idle_flags(const ConfigFlags& flags, const RunConfig& config) {
  const TrainConfig& t = config.train;
  const ModelConfig& m = config.model;
  struct Idle {
    bool holds;
    const char* why;
    std::initializer_list<const char*> keys;
  };
  const Idle all[] = {
      {t.optimizer == "adamw", "the optimizer is adamw", {"muon_lr", "muon_momentum", "muon_adjust"}},
      {m.position == Position::learned,
       "positions are learned",
       {"rope_theta", "rope_sign", "rope_layout", "rope_scaling", "rope_dtype"}},
      {m.norm == NormKind::rms, "the norm is rms", {"norm_bias"}},
      {m.init != Init::normal, "init is not normal", {"init_std", "residual_init_scale"}},
      {!t.val_data.empty(), "--val-data names the validation text", {"val_fraction"}}};
  for (const Idle& idle : all) {
    for (const char* key : idle.keys) {
      if (idle.holds && flags.is_given(key))
        write_note(fmt::format("note: {} has no effect: {}\n", ConfigFlags::flag_name(key), idle.why));
    }
  }
}

// Returns the model file or folder if it contains a tokenizer, else "".
std::string own_tokenizer(const std::string& model) {
  const std::string path = resolve_model_path(model);
  if (path.ends_with(".gguf")) return gguf_vocab(GgufFile(path)) ? path : "";
  const std::string folder = is_folder(path) ? path : std::filesystem::path(path).parent_path().string();
  return has_tokenizer(folder) ? folder : "";
}

}  // namespace

RunConfig new_run_config(const TrainSources& sources, const ConfigFlags& flags) {
  Problems problems;
  RunConfig config = new_run_config(sources, flags, problems);
  problems.report();
  return config;
}

RunConfig new_run_config(const TrainSources& sources, const ConfigFlags& flags, Problems& problems) {
  Settings settings;
  std::optional<ModelConfig> begun;
  if (!sources.preset.empty()) problems.collect([&] { settings.add_preset(sources.preset); });
  if (!sources.init_from.empty()) problems.collect([&] { begun = config_of_model(sources.init_from); });
  if (begun) {
    settings.add_model(*begun);
    const std::string tokenizer = own_tokenizer(sources.init_from);
    if (!tokenizer.empty()) settings.add_json({{"tokenizer", tokenizer}}, sources.init_from);
  }
  if (sources.steps) settings.add_json({{"steps", *sources.steps}}, "the recommendation");
  if (!sources.config.empty()) problems.collect([&] { settings.add_file(sources.config); });
  problems.collect([&] { flags.apply_environment(settings); });
  problems.collect([&] { flags.apply_flags(settings); });
  // The tokenizer determines the vocabulary size.
  if (!sources.preset.empty() && !begun) settings.forget_preset("vocab_size");
  RunConfig config = settings.resolve(problems);
  if (begun) problems.collect([&] { require_shape(config.model, *begun); });
  return config;
}

void note_choices(const TrainSources& sources, const ConfigFlags& flags, const RunConfig& config) {
  note_idle_flags(flags, config);
  if (config.train.optimizer == "muon-nanochat" && flags.is_given("lr")) note_own_rates("--lr");
  if (sources.preset.empty()) return;
  if (!sources.init_from.empty()) {
    write_note(
        fmt::format("note: the shape of the model comes from {}; the preset {} only sets training settings\n",
                    sources.init_from, sources.preset));
    return;
  }
  const nlohmann::json keys = preset_keys(sources.preset);
  const int64_t warmup = keys.value("warmup", int64_t{0}), vocab = keys.value("vocab_size", int64_t{0});
  if (!flags.is_set("warmup") && config.train.warmup > 0 && config.train.warmup < warmup &&
      config.train.warmup == config.train.steps / 4)
    write_note(
        fmt::format("note: warm-up limited to {}, a quarter of the run; the {} of {} are for longer runs\n",
                    format_amount(config.train.warmup, "step"), format_thousands(warmup), sources.preset));
  constexpr int64_t kBytes = 256;
  if (config.train.tokenizer == "byte" && config.model.vocab_size == 0 && vocab > kBytes)
    write_note(
        fmt::format("note: the vocabulary has {} ids, those of the tokenizer byte; {} has {}; use "
                    "--tokenizer for a tokenizer of that size\n",
                    kBytes, sources.preset, format_thousands(vocab)));
}

bool names_model(const TrainSources& sources, const ConfigFlags& flags) {
  if (!sources.preset.empty() || !sources.config.empty() || !sources.init_from.empty()) return true;
  return flags.is_set("n_layer") || flags.is_set("n_embd");
}

namespace {

// Throws unless an entry of --data exists. Expands patterns.
void check_data(const std::string& entry) {
  const std::string name = source_name(entry);
  if (path_exists(name) || is_tales(name)) return;
  if (is_preset(name))
    fail_usage(
        "data \"{}\": no such file or folder; for the preset of this name, use --preset {}, and name text "
        "files, folders, "
        "token shards or tales as data",
        name, name);
  find_text_files({name});
}

}  // namespace

void check_sources(const TrainConfig& config, const std::string& init_from) {
  Problems problems;
  if (config.data.empty()) problems.collect(require_data_named);
  for (const auto* entries : {&config.data, &config.val_data}) {
    for (const std::string& entry : *entries)
      problems.collect([&] { check_data(entry); });
  }
  if (init_from.empty()) problems.collect([&] { require_tokenizer(config.tokenizer); });
  problems.report();
}

}  // namespace gpt
