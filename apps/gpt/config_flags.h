#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace CLI {
class App;
}

namespace gpt {

// The config keys as flags: --n-embd 128, --qkv-bias false, --qkv-bias, --data a.txt b.txt.
class ConfigFlags {
 public:
  using Wanted = std::function<bool(const KeyInfo&)>;
  // shown: what help says of some keys that nobody sets, where the command has other defaults.
  ConfigFlags(CLI::App& app, const Wanted& wanted, const std::map<std::string, std::string>& shown = {});

  // The values of GPT_KEY variables (of `only` these keys, unless empty), then those of flags: later ones
  // win.
  void apply_environment(Settings& settings, const std::vector<std::string>& only = {}) const;
  void apply_flags(Settings& settings) const;
  // Writes a note for each GPT_KEY variable that differs from a resumed run's config, unless a flag sets the
  // key or it is among those that the run takes from the environment.
  void note_unused_environment(const RunConfig& run, const std::vector<std::string>& used = {}) const;

  // Keys that were given as flags.
  std::vector<std::string> given() const;
  bool is_given(const std::string& key) const { return values_->contains(key); }
  bool is_set(const std::string& key) const;  // as a flag or in the environment
  const std::map<std::string, std::vector<std::string>>& values() const { return *values_; }
  static std::string flag_name(const std::string& key);  // "n_embd" -> "--n-embd"

 private:
  void apply(Settings& settings, const KeyInfo& key, const std::vector<std::string>& values,
             const std::string& source) const;

  std::vector<KeyInfo> keys_;
  std::shared_ptr<std::map<std::string, std::vector<std::string>>> values_;
};

// "GPT_N_EMBD" of n_embd and n-embd.
std::string variable_name(std::string key);

// Where the settings of a new run come from, besides environment and flags; "" for what is not given.
struct TrainSources {
  std::string preset, config, init_from;
  std::optional<int64_t> steps = {};  // recommended with the preset
};

// The settings of a new run, later ones winning: preset, the model of init_from, config file, environment,
// flags. The vocabulary may be left to the tokenizer (0).
RunConfig new_run_config(const TrainSources& sources, const ConfigFlags& flags);
// The same, but adds what is wrong to the problems: such keys have their defaults then.
RunConfig new_run_config(const TrainSources& sources, const ConfigFlags& flags, Problems& problems);

// Says which settings of a new run are not those of its preset, or move nothing.
void note_choices(const TrainSources& sources, const ConfigFlags& flags, const RunConfig& config);

// Says that a flag for the learning rate moves no rate of muon-nanochat.
void note_own_rates(const std::string& flag);

// Whether anything says how large a model to make: a preset, a file, a model, or flags for layers or width.
bool names_model(const TrainSources& sources, const ConfigFlags& flags);

// Throws Errors for the texts and the tokenizer of a new run that are not there, and says how one names
// them. The tokenizer of init_from, where there is one, comes before the named one.
void check_sources(const TrainConfig& config, const std::string& init_from);

}  // namespace gpt
