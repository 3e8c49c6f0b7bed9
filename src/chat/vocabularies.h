#pragma once

#include <cstdint>

#include "model/model_files.h"
#include "text/tokenizer.h"

namespace gpt {

// Returns an id that has different texts in two tokenizers, or -1. Added tokens and ids without a text are
// not compared.
int32_t differing_id(const Tokenizer& a, const Tokenizer& b);

// Throws Error that names both models if their vocabularies differ in size or in the text of a token. The
// texts are not compared if a tokenizer is missing or cannot be read.
void require_equal_vocabularies(const LoadedModel& a, const LoadedModel& b);

}  // namespace gpt
