#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/spm_tokenizer.h"

namespace gpt::detail {

// Returns true if a tokenizer.json contains a BPE over characters that writes spaces as U+2581. The
// tokenizers of Llama 2 and Mistral are examples.
bool is_spm_json(const nlohmann::json& root);

// Reads the parts of a SentencePiece tokenizer.json. Throws Error with the name of the setting for
// unsupported settings that would change ids.
SpmParts read_spm_json(const nlohmann::json& root, const std::string& name);

}  // namespace gpt::detail
