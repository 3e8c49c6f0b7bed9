#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/config.h"

namespace gpt {

struct Family;

// The model of a preset, not completed. Its vocab_size is 0 if the tokenizer decides. Throws invalid_argument
// with a suggestion for an unknown name.
ModelConfig preset_config(const std::string& name);
// All config keys of a preset: its model's, and training settings where the source has them. Throws
// invalid_argument like preset_config.
nlohmann::json preset_keys(const std::string& name);
// The values of a family for all keys that tell any families apart.
nlohmann::json switch_keys(const Family& family);
bool is_preset(const std::string& name);
std::vector<std::string> preset_names();
// What a preset is for, in a few words. Throws invalid_argument for an unknown name.
std::string preset_purpose(const std::string& name);

}  // namespace gpt
