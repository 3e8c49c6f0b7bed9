#pragma once

#include <string>
#include <string_view>

#include "text/vocab_data.h"

namespace gpt::detail {

// Parses a SentencePiece file (tokenizer.model), which is a protocol buffer (sentencepiece_model.proto).
// Throws Error with the file name if the file is malformed, if the model is not a BPE, or if the model
// rewrites characters.
VocabData parse_spm_model(std::string_view bytes, const std::string& name);

}  // namespace gpt::detail
