#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/config.h"
#include "text/tokenizer.h"

namespace gpt {

// The tokenizer_config.json with which transformers' AutoTokenizer loads a tokenizer.json exactly as it is,
// knows the tokens that begin, end, pad and replace texts, and the length of the context. The model's ids of
// such tokens go before the tokenizer's, and a name in `known` (such as "pad_token", with its text) goes
// before both. Texts are padded with the token that ends them where no other one is known. Only added tokens
// are named: transformers would cut another one out of words.
std::string hf_tokenizer_config(const Tokenizer& tokenizer, const ModelConfig& config,
                                const std::vector<std::pair<std::string, std::string>>& known = {});

}  // namespace gpt
