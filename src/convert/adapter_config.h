#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/adapter_settings.h"

namespace gpt {

// PEFT's adapter_config.json.
struct AdapterConfig {
  AdapterSettings settings;
  std::string base;             // base_model_name_or_path
  bool checks_targets = false;  // target_modules are names, so that every tensor must be of one
};

// Every key is honoured, or has no effect on what an adapter that is loaded computes, or is refused by name.
// Throws Error naming `what` and the key.
AdapterConfig read_adapter_config(const nlohmann::json& object, const std::string& what);

nlohmann::json adapter_config_json(const AdapterSettings& settings, const std::string& base,
                                   bool fan_in_fan_out);

// Throws Error unless at most one value of rank_pattern and alpha_pattern is for a module: PEFT takes the
// first in the order of the file.
void check_patterns(const AdapterSettings& settings, const std::string& module, const std::string& what);

}  // namespace gpt
