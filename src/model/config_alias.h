#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt {

// Renames the keys that other projects use (transformers, the nanochat, GPT-1, GPT-2 and Mini-GPT
// write-ups) to ours and translates their values; keys of ours and unknown ones pass through. Throws
// UsageError when two names of one key disagree.
nlohmann::json translate_aliases(const nlohmann::json& object);

// Throws UsageError when a config without "model_type" names its shape in the words of another project, whose
// norms, biases and other switches such a file leaves unsaid; the message names the presets that have them.
void require_family(const nlohmann::json& object, const std::string& what);

// Turns a model's config.json into our keys: family defaults of its "model_type", aliases, and an error
// for settings that would change the result and that we do not have. `ignored` keys of transformers
// (dtype, architectures, ...) are dropped. The result has "bos_token_id"/"eos_token_id" where given.
nlohmann::json translate_model_config(const nlohmann::json& object, const std::string& what);

}  // namespace gpt
