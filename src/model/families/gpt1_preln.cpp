// The GPT-1 notebook's model: norms before the layers.

#include "model/families/family.h"

namespace gpt {
namespace {

constexpr Naming kNaming = {
    .wte = "embeddings.wte.{1}",
    .wpe = "embeddings.wpe.{1}",
    .norm1 = "blocks.{0}.ln_1.{1}",
    .qkv = "blocks.{0}.attn.c_attn.{1}",
    .out = "blocks.{0}.attn.c_proj.{1}",
    .norm2 = "blocks.{0}.ln_2.{1}",
    .fc = "blocks.{0}.mlp.c_fc.{1}",
    .proj = "blocks.{0}.mlp.c_proj.{1}",
    .final_norm = "ln_f.{1}",
    .head = "lm_head.{1}",
    .norm_weight = "gamma",
    .norm_bias = "beta",
};

std::vector<Preset> presets() {
  return {{"gpt1-preln", "GPT-1 with norms before the layers",
           R"({"vocab_size": 40478, "n_ctx": 512, "n_layer": 12, "n_head": 12, "n_embd": 768,
               "dropout": 0.1, "batch_size": 64, "lr": 2.5e-4, "min_lr": 0, "warmup": 2000, "weight_decay": 0.01,
               "sampling": "epoch"})"}};
}

}  // namespace

constinit const Family family::gpt1_preln = {
    .name = "gpt1-preln",
    .switches = "{}",
    .presets = presets,
    .namings = {&kNaming},
};

}  // namespace gpt
