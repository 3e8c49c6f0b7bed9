#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/spm_tokenizer.h"

namespace gpt::detail {

// Whether a tokenizer.json is a BPE over characters with U+2581 for blanks, as those of Llama 2 and Mistral.
bool is_spm_json(const nlohmann::json& root);

// Its parts. Throws Error, naming what it is, for anything that would change ids and is not supported.
SpmParts read_spm_json(const nlohmann::json& root, const std::string& name);

}  // namespace gpt::detail
