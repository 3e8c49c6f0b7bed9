// The model of the GPT-1 notebook, with a norm before each sub-layer (pre-norm).

#include "model/families/family.h"

namespace gpt {

constexpr Naming kNaming = {
    .outside = {"embeddings.wte.{1}", "embeddings.wpe.{1}", "ln_f.{1}", "lm_head.{1}"},
    .block = "blocks.{0}.",
    .norms = {"ln_1.{1}", "ln_2.{1}"},
    .qkv = {"attn.c_attn.{1}"},
    .linear = {"attn.c_proj.{1}", "mlp.c_fc.{1}", "mlp.c_proj.{1}"},
    .norm_words = {"gamma", "beta"},
};

constexpr Preset kPresets[] = {{"gpt1-preln",
                                "GPT-1 with a norm before each sub-layer (pre-norm)",
                                {.vocab_size = 40478, .n_ctx = 512},
                                [](ModelConfig& c) { c.dropout = 0.1; },
                                kGpt1Training}};

constinit const Family family::gpt1_preln = {
    .name = "gpt1-preln",
    .presets = kPresets,
    .namings = {&kNaming},
};

}  // namespace gpt
