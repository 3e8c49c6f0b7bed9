#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/module_pattern.h"
#include "model/adapter_settings.h"

namespace gpt {

// The content of PEFT's adapter_config.json.
struct AdapterConfig {
  AdapterSettings settings;             // without rank_pattern and alpha_pattern
  std::string base;                     // base_model_name_or_path
  std::optional<ModuleFilter> targets;  // target_modules; empty for all-linear
  ModuleFilter excluded;                // exclude_modules
  std::vector<std::string> layers_patterns;
  // Patterns of ranks and alphas in the order of the file. The first pattern that matches a module applies.
  std::vector<std::pair<ModulePattern, int64_t>> ranks;
  std::vector<std::pair<ModulePattern, double>> alphas;

  // Returns true if PEFT adds an adapter to this linear layer. `layer` is the index of the transformer block
  // that contains the linear layer, or -1 for the head.
  bool has_target(const std::string& module, int64_t layer) const;
  AdapterSize size(const std::string& module) const;
};

// Parses adapter_config.json. A key is either supported, or has no effect on a loaded adapter, or is rejected
// by name. Throws Error naming `what` and the key.
AdapterConfig read_adapter_config(std::string_view text, const std::string& what);

nlohmann::json adapter_config_json(const AdapterSettings& settings, const std::string& base,
                                   bool fan_in_fan_out);

}  // namespace gpt
