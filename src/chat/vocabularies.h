#pragma once

#include <cstdint>

#include "model/model_files.h"
#include "text/tokenizer.h"

namespace gpt {

// An id that stands for different texts in two tokenizers, -1 where there is none. Added tokens and ids
// without a text are left out.
int32_t differing_id(const Tokenizer& a, const Tokenizer& b);

// Throws Error, naming both models, where their vocabularies differ: in size, or in the text of a token.
// Texts are not compared where a tokenizer is missing or cannot be read.
void require_equal_vocabularies(const LoadedModel& a, const LoadedModel& b);

}  // namespace gpt
