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

// Adds the config keys to a command as flags: --n-embd 128, --qkv-bias false, --qkv-bias, --data a.txt b.txt.
class ConfigFlags {
 public:
  using Wanted = std::function<bool(const KeyInfo&)>;
  // Adds a flag for every key that `wanted` accepts. `shown` contains the defaults that the help displays for
  // keys whose default is different in this command.
  ConfigFlags(CLI::App& app, const Wanted& wanted, const std::map<std::string, std::string>& shown = {});

  // apply_environment applies the values of GPT_KEY environment variables, restricted to the keys in `only`
  // unless it is empty. apply_flags applies the values of flags. Values applied later override earlier ones.
  void apply_environment(Settings& settings, const std::vector<std::string>& only = {}) const;
  void apply_flags(Settings& settings) const;
  // Writes a note for each GPT_KEY variable that differs from the config of a resumed run. Skips keys that
  // are set by a flag, and keys in `used`, which the run takes from the environment.
  void note_unused_environment(const RunConfig& run, const std::vector<std::string>& used = {}) const;

  // Returns the keys that were given as flags.
  std::vector<std::string> given() const;
  bool is_given(const std::string& key) const { return values_->contains(key); }
  bool is_set(const std::string& key) const;  // true if given as a flag or in the environment
  const std::map<std::string, std::vector<std::string>>& values() const { return *values_; }
  static std::string flag_name(const std::string& key);  // "n_embd" -> "--n-embd"

 private:
  void apply(Settings& settings, const KeyInfo& key, const std::vector<std::string>& values,
             const std::string& source) const;

  std::vector<KeyInfo> keys_;
  std::shared_ptr<std::map<std::string, std::vector<std::string>>> values_;
};

// Returns the environment variable of a key: "GPT_N_EMBD" for "n_embd" or "n-embd".
std::string variable_name(std::string key);

// The sources of the settings of a new run, other than environment and flags. Strings that were not given are
// "".
struct TrainSources {
  std::string preset, config, init_from;
  std::optional<int64_t> steps = {};  // number of steps recommended together with the preset
};

// Returns the config of a new run. The sources are applied in this order, and later ones override earlier
// ones: preset, the model of init_from, config file, environment, flags. A vocab_size of 0 means that the
// tokenizer determines it.
RunConfig new_run_config(const TrainSources& sources, const ConfigFlags& flags);
// Returns the same config, but collects errors in `problems`. Keys with errors keep their defaults.
RunConfig new_run_config(const TrainSources& sources, const ConfigFlags& flags, Problems& problems);

// Writes notes about settings of a new run that differ from its preset, and about flags that have no effect.
void note_choices(const TrainSources& sources, const ConfigFlags& flags, const RunConfig& config);

// Writes a note that a learning rate flag does not change the learning rates of muon-nanochat.
void note_own_rates(const std::string& flag);

// Returns true if anything determines the model size: a preset, a config file, a model, or flags for layers
// or width.
bool names_model(const TrainSources& sources, const ConfigFlags& flags);

// Throws Errors if the texts or the tokenizer of a new run do not exist; the messages say how to name them.
// With init_from, the tokenizer is not checked, because the model's own tokenizer takes precedence.
void check_sources(const TrainConfig& config, const std::string& init_from);

}  // namespace gpt
