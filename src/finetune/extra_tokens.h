#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace gpt {

// The tokenizer with these special tokens: those that it lacks come behind its last one. Tokenizers of bytes
// and characters have no added tokens, and stay as they are.
std::shared_ptr<const Tokenizer> with_special_tokens(std::shared_ptr<const Tokenizer> tokenizer,
                                                     const std::vector<std::string>& names);

}  // namespace gpt
