#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

// Renames keys of other projects (transformers, and the nanochat, GPT-1, GPT-2 and Mini-GPT write-ups) to
// gpt.cpp keys and translates their values. Keys of gpt.cpp and unknown keys are copied unchanged. Throws
// invalid_argument if two names of the same key have different values.
nlohmann::json translate_aliases(const nlohmann::json& object);

// Returns the gpt.cpp key for a key name of another project: "lr" for "learning_rate". Returns "" for a name
// that translate_aliases does not rename.
std::string config_key_of(const std::string& theirs);

// Throws invalid_argument if a config has no "model_type" but uses key names of another project. Such a file
// does not specify the norms, biases and other options of that project. The error message names presets that
// specify these options.
void require_family(const nlohmann::json& object, const std::string& what);

}  // namespace gpt
