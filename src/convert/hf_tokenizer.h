#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/config.h"
#include "text/tokenizer.h"

namespace gpt {

// Returns a tokenizer_config.json with which transformers' AutoTokenizer loads a tokenizer.json unchanged.
// The file contains the BOS, EOS, padding and unknown tokens and the length of the context. If several
// sources define a special token, `known` takes precedence over the model, and the model over the tokenizer.
// `known` contains pairs such as "pad_token" and its text. If there is no padding token, EOS is used for
// padding. Only added tokens are listed, because transformers would split words at any other listed token.
std::string hf_tokenizer_config(const Tokenizer& tokenizer, const ModelConfig& config,
                                const std::vector<std::pair<std::string, std::string>>& known = {});

}  // namespace gpt
