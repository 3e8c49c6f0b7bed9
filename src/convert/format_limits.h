#pragma once

#include <string>

#include "model/families/family.h"
#include "text/tokenizer.h"

namespace gpt {

// What the formats of one file can hold. Each function throws Error for the first config key that speaks
// against it, with the value needed and the value found. Biases that a GPT-2 lacks count as zeros.

// The family whose architecture of GGUF it is: llama for Mistral's, Qwen2's and llama2.c's models too, or
// gpt2.
const Family& gguf_family(const ModelConfig& config);
void require_llama2c(const ModelConfig& config);
void require_llmc(const ModelConfig& config);

// What a model that is about to be trained cannot be converted to, and why, as one line that ends in a
// newline; empty when nothing is in the way. GGUF is always meant, llama2.c for models with rotary positions,
// llm.c for others. transformers' layout takes every model. tokenizer may be null.
std::string export_limits(const ModelConfig& config, const Tokenizer* tokenizer);

}  // namespace gpt
