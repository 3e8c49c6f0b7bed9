#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gpt {

// The switches that make a family ("gpt2", "llama", "mini-gpt", ...), as the text of a JSON object of
// config keys; nullptr when there is no such family. The names are the values of "model_type".
const std::string* family_keys(const std::string& model_type);
std::vector<std::string> family_names();

// All config keys of a preset (family and shape, and its training settings where the source has them).
// Throws UsageError with a suggestion for an unknown name.
nlohmann::json preset(const std::string& name);
bool is_preset(const std::string& name);
std::vector<std::string> preset_names();
// What a preset is for, in a few words. Throws UsageError for an unknown name.
std::string preset_purpose(const std::string& name);

}  // namespace gpt
