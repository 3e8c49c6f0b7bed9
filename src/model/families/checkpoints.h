#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "io/llama2c.h"
#include "io/llmc.h"
#include "io/tensor_file.h"
#include "model/families/tensor_names.h"

// Functions that read model configs from the checkpoint files of other programs.

namespace gpt {

struct ShapeHints;

extern const Naming kLlama2cNaming;
ModelConfig llama2c_config(const Llama2cHeader& header);

extern const Naming kLlmcNaming;
ModelConfig llmc_config(const LlmcHeader& header);

// Reads the config from nanoGPT's "model_args". `what` names the file in error messages.
extern const Naming kNanoGptNaming;
ModelConfig nanogpt_config(const nlohmann::json& args, const std::string& what);

// Returns true if the tensors have the names of GPT-2, with or without the prefix "transformer.".
bool has_gpt2_names(const TensorFiles& tensors);

// Returns true if a config.json was written by minGPT. Such a file contains the model settings at the top
// level, or as an object "model" next to the settings of the trainer.
bool is_mingpt_config(const nlohmann::json& root);

// Returns the config of a model from a file that contains only tensors, with the tensor names of GPT-2. The
// tensor shapes determine all values except the number of heads and, if the head is tied, the GELU variant.
// The missing values come from `mingpt` (the content of minGPT's config.json, or null) or from `hints`.
// Throws Error if a value is missing or contradicts the tensors. `what` names the file in error messages.
ModelConfig gpt2_shape(const TensorFiles& tensors, const nlohmann::json& mingpt, const ShapeHints& hints,
                       const std::string& what);

// Reads the config of the nanochat checkpoint `path` from the file `meta`, which is stored next to the
// checkpoint. Throws Error for checkpoints of newer nanochat versions.
ModelConfig nanochat_config(const std::string& meta, const TensorFiles& tensors, const std::string& path);

}  // namespace gpt
