#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

// Renames the keys that other projects use (transformers, the nanochat, GPT-1, GPT-2 and Mini-GPT
// write-ups) to ours and translates their values; keys of ours and unknown ones pass through. Throws
// invalid_argument when two names of one key disagree.
nlohmann::json translate_aliases(const nlohmann::json& object);

// Our key for a name of other projects ("learning_rate": "lr"); "" for a name that translate_aliases leaves
// alone.
std::string config_key_of(const std::string& theirs);

// Throws invalid_argument when a config without "model_type" names its shape in the words of another project,
// whose norms, biases and other switches such a file leaves unsaid; the message names the presets that have
// them.
void require_family(const nlohmann::json& object, const std::string& what);

}  // namespace gpt
