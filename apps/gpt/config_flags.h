#pragma once

#include <functional>
#include <map>
#include <memory>
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
  ConfigFlags(CLI::App& app, const Wanted& wanted);

  // The values of GPT_KEY variables (of `only` these keys, unless empty), then those of flags: later ones
  // win.
  void apply_environment(Settings& settings, const std::vector<std::string>& only = {}) const;
  void apply_flags(Settings& settings) const;

  // Keys that were given as flags.
  std::vector<std::string> given() const;
  const std::map<std::string, std::vector<std::string>>& values() const { return *values_; }
  static std::string flag_name(const std::string& key);  // "n_embd" -> "--n-embd"

 private:
  void apply(Settings& settings, const KeyInfo& key, const std::vector<std::string>& values,
             const std::string& source) const;

  std::vector<KeyInfo> keys_;
  std::shared_ptr<std::map<std::string, std::vector<std::string>>> values_;
};

}  // namespace gpt
