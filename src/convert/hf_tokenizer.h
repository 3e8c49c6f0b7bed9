#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/config.h"
#include "text/tokenizer.h"

namespace gpt {

// Returns a tokenizer_config.json with which transformers' AutoTokenizer loads a tokenizer.json unchanged. It
// contains the BOS, EOS, padding and unknown tokens and the length of the context. Special tokens of the
// model take precedence over those of the tokenizer, and names in `known` (such as "pad_token", with its
// text) take precedence over both. If there is no padding token, EOS is used for padding. Only added tokens
// are listed, because transformers would split words at any other listed token.
std::string hf_tokenizer_config(const Tokenizer& tokenizer, const ModelConfig& config,
                                const std::vector<std::pair<std::string, std::string>>& known = {});

}  // namespace gpt
