#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gpt {

// All config keys of a preset (its family's switches, its shape, and its training settings where the source
// has them). Throws UsageError with a suggestion for an unknown name.
nlohmann::json preset(const std::string& name);
bool is_preset(const std::string& name);
std::vector<std::string> preset_names();
// What a preset is for, in a few words. Throws UsageError for an unknown name.
std::string preset_purpose(const std::string& name);

}  // namespace gpt
