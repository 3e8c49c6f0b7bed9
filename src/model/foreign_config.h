#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/config.h"

namespace gpt {

// Whether transformers has this model_type: gpt2, openai-gpt, llama, qwen2, mistral or nanochat.
bool is_foreign_family(const std::string& model_type);

// Reads a config.json of such a family. Each key means what transformers 5 makes of it, missing keys
// included; keys that have no effect there, ours among them, have none here; a setting that the decoder lacks
// is an error that names the key, what is expected and what was found. The result is complete, but for the
// token ids. docs/config-variants.md has every key compared. Throws Error.
ModelConfig foreign_config(const nlohmann::json& object);

// "bos_token_id" and "eos_token_id" as the object has them, or as its family has them where they are missing.
nlohmann::json foreign_token_ids(const nlohmann::json& object);

}  // namespace gpt
