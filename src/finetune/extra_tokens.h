#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace gpt {

// Returns a tokenizer that has all of these special tokens. Missing tokens get the ids after the last id of
// the vocabulary. Byte and character tokenizers do not support added tokens and are returned unchanged.
std::shared_ptr<const Tokenizer> with_special_tokens(std::shared_ptr<const Tokenizer> tokenizer,
                                                     const std::vector<std::string>& names);

}  // namespace gpt
