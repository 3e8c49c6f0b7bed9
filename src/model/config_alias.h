#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

// Renames the keys that other projects use (transformers, the nanochat, GPT-1, GPT-2 and Mini-GPT
// write-ups) to ours and translates their values; keys of ours and unknown ones pass through. Throws
// UsageError when two names of one key disagree.
nlohmann::json translate_aliases(const nlohmann::json& object);

// Our key for a name of other projects ("learning_rate": "lr"); "" for a name that translate_aliases leaves alone.
std::string config_key_of(const std::string& theirs);

// Turns a model's config.json into our keys: family defaults of its "model_type", aliases, and an error
// for settings that would change the result and that we do not have. `ignored` keys of transformers
// (dtype, architectures, ...) are dropped. The result has "bos_token_id"/"eos_token_id" where given.
nlohmann::json translate_model_config(const nlohmann::json& object, const std::string& what);

}  // namespace gpt
