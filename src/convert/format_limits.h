#pragma once

#include <string>

#include "model/families/family.h"
#include "text/tokenizer.h"

namespace gpt {

// Limits of the single-file formats. Each function throws Error for the first config key that the format
// cannot store, with the required value and the found value. Missing biases of a GPT-2 model count as zeros.

// Returns the family whose GGUF architecture fits the model: gpt2 or llama. Models of Mistral, Qwen2 and
// llama2.c have the architecture llama.
const Family& gguf_family(const ModelConfig& config);
void require_llama2c(const ModelConfig& config);
void require_llmc(const ModelConfig& config);

// Called before a model is trained. Returns a note with the formats to which the model cannot be converted,
// and the reasons. The note is one line and ends with a newline. Returns "" if there are no such formats.
// Checks GGUF for all models, llama2.c for models with rotary positions, and llm.c for other models. The
// layout of transformers can store every model. `tokenizer` may be null.
std::string export_limits(const ModelConfig& config, const Tokenizer* tokenizer);

}  // namespace gpt
