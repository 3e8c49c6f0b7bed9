#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/config.h"

namespace gpt {

struct Family;

// Returns the model config of a preset. The config is not completed, and its vocab_size is 0 if the tokenizer
// determines it. Throws invalid_argument with a suggestion if the name is unknown.
ModelConfig preset_config(const std::string& name);
// Returns all config keys of a preset: its model keys, and the training settings from its original source.
// Throws invalid_argument like preset_config.
nlohmann::json preset_keys(const std::string& name);
// Returns a family's values of all architecture switches. A key is an architecture switch if at least one
// family changes its default.
nlohmann::json switch_keys(const Family& family);
bool is_preset(const std::string& name);
std::vector<std::string> preset_names();
// Returns a short description of a preset's purpose. Throws invalid_argument if the name is unknown.
std::string preset_purpose(const std::string& name);

}  // namespace gpt
