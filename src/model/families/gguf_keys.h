#pragma once

#include "io/gguf.h"
#include "model/config.h"
#include "model/families/family.h"

namespace gpt {

// Returns the family for the architecture of a GGUF file. Throws Error naming the architecture if no family
// supports it.
const Family& gguf_family(const GgufFile& file);

// Returns the model config from the metadata of a GGUF file. Throws Error if the decoder does not support a
// setting that changes results.
ModelConfig gguf_config(const GgufFile& file);

// Metadata keys of the tokens that end a text, in the order in which they are written. llama.cpp stops at
// each of these tokens.
inline constexpr const char* kEndKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                           "tokenizer.ggml.eom_token_id"};
// A metadata key of gpt.cpp for models with more than three end tokens. llama.cpp ignores this key.
inline constexpr const char* kAllEndsKey = "gpt.eos_token_ids";

// The rotary scaling of Llama 3 is stored as a tensor of factors that divide the frequencies. The parameters
// from which these factors are computed are stored in metadata keys of gpt.cpp.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
inline constexpr const char* kRopeFactorKey = "gpt.rope_scaling.factor";
inline constexpr const char* kRopeLowKey = "gpt.rope_scaling.low_freq_factor";
inline constexpr const char* kRopeHighKey = "gpt.rope_scaling.high_freq_factor";

}  // namespace gpt
