#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "io/tensor_files.h"
#include "model/model_files.h"

namespace gpt {

// Whether the tensors have GPT-2's names, with or without "transformer." in front.
bool has_gpt2_names(const TensorFiles& tensors);

// Whether a config.json is minGPT's: its model's settings, alone or as "model" beside those of its trainer.
bool is_mingpt_config(const nlohmann::json& root);

// The config of a model under GPT-2's names whose file has nothing but tensors. Their shapes tell all but the
// number of heads and, where the head is tied, which GELU it is: these come from `mingpt`, a config.json that
// may be null, or from `hints`. Throws Error that asks for what is missing, or names what disagrees. `what`
// names the file.
ModelConfig gpt2_shape(const TensorFiles& tensors, const nlohmann::json& mingpt, const ShapeHints& hints,
                       const std::string& what);

}  // namespace gpt
