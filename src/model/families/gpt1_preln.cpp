// The GPT-1 notebook's model: norms before the layers.

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

constexpr Preset kPresets[] = {
    {"gpt1-preln", "GPT-1 with norms before the layers",
     R"({"vocab_size": 40478, "n_ctx": 512, "n_layer": 12, "n_head": 12, "n_embd": 768,
         "dropout": 0.1, "batch_size": 64, "lr": 2.5e-4, "min_lr": 0, "warmup": 2000, "weight_decay": 0.01,
         "sampling": "epoch"})"}};

constinit const Family family::gpt1_preln = {
    .name = "gpt1-preln",
    .switches = "{}",
    .presets = kPresets,
    .namings = {&kNaming},
};

}  // namespace gpt
