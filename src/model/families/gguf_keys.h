#pragma once

#include "io/gguf.h"
#include "model/config.h"
#include "model/families/family.h"

namespace gpt {

// The family whose architecture a GGUF file has. Throws Error for another one, naming it.
const Family& gguf_family(const GgufFile& file);

// What the metadata of a GGUF file say about its model. Throws Error for a setting of the architecture that
// would change results and that no switch here stands for.
ModelConfig gguf_config(const GgufFile& file);

// The keys of tokens that end a text, in the order in which they are filled. llama.cpp stops at each of them.
inline constexpr const char* kEndKeys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                           "tokenizer.ggml.eom_token_id"};
// A key of this program for models with more than three end tokens; llama.cpp does not read it.
inline constexpr const char* kAllEndsKey = "gpt.eos_token_ids";

// Llama 3's stretched rotary frequencies are a tensor of factors by which frequencies are divided. The
// parameters that they come from are written under keys of our own.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
inline constexpr const char* kRopeFactorKey = "gpt.rope_scaling.factor";
inline constexpr const char* kRopeLowKey = "gpt.rope_scaling.low_freq_factor";
inline constexpr const char* kRopeHighKey = "gpt.rope_scaling.high_freq_factor";

}  // namespace gpt
