#pragma once

#include <string>
#include <string_view>

#include "text/vocab_data.h"

namespace gpt::detail {

// The content of a SentencePiece file (tokenizer.model), a protocol buffer (sentencepiece_model.proto).
// Throws Error, naming the file, for what is malformed and for models that are not BPE or that rewrite
// characters.
VocabData parse_spm_model(std::string_view bytes, const std::string& name);

}  // namespace gpt::detail
