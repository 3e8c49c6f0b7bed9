#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "io/llama2c.h"
#include "io/llmc.h"
#include "io/tensor_file.h"
#include "model/families/tensor_names.h"

// What the files of other programs say of the models in them.

namespace gpt {

struct ShapeHints;

extern const Naming kLlama2cNaming;
ModelConfig llama2c_config(const Llama2cHeader& header);

extern const Naming kLlmcNaming;
ModelConfig llmc_config(const LlmcHeader& header);

// nanoGPT's "model_args"; `what` names the file in errors.
extern const Naming kNanoGptNaming;
ModelConfig nanogpt_config(const nlohmann::json& args, const std::string& what);

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

// The file `meta` beside a checkpoint of nanochat at `path`. Throws Error for those of a newer nanochat.
ModelConfig nanochat_config(const std::string& meta, const TensorFiles& tensors, const std::string& path);

}  // namespace gpt
