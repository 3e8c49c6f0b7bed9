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

// PEFT's adapter_config.json.
struct AdapterConfig {
  AdapterSettings settings;             // without the patterns of ranks and alphas, which are below
  std::string base;                     // base_model_name_or_path
  std::optional<ModuleFilter> targets;  // target_modules; nothing: all-linear
  ModuleFilter excluded;                // exclude_modules
  std::vector<std::string> layers_patterns;
  // In the order of the file: the first that a module matches counts.
  std::vector<std::pair<ModulePattern, int64_t>> ranks;
  std::vector<std::pair<ModulePattern, double>> alphas;

  // Whether PEFT gives a linear layer of the model an adapter. layer: the block that it is in, -1: the head.
  bool has_target(const std::string& module, int64_t layer) const;
  AdapterSize size(const std::string& module) const;
};

// Every key of the JSON text is honoured, or has no effect on what an adapter that is loaded computes, or is
// refused by name. Throws Error naming `what` and the key.
AdapterConfig read_adapter_config(std::string_view text, const std::string& what);

nlohmann::json adapter_config_json(const AdapterSettings& settings, const std::string& base,
                                   bool fan_in_fan_out);

}  // namespace gpt
