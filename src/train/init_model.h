#pragma once

#include "model/config.h"
#include "text/tokenizer.h"

namespace gpt {

// A run that starts from a model keeps its shape and its tokenizer. Throws UsageError naming a key that was
// set to something else; dropout may be chosen.
void require_shape(const ModelConfig& asked, const ModelConfig& model);
// name: the tokenizer that was asked for, in place of `model`, the model's.
void require_tokenizer(const std::string& name, const Tokenizer& model);

}  // namespace gpt
