// The model of the Mini-GPT course unit.

#include "model/families/family.h"

namespace gpt {
namespace {

constexpr Naming kNaming = {
    .wte = "token_embedding.{1}",
    .wpe = "position_embedding.{1}",
    .norm1 = "blocks.{0}.ln1.{1}",
    .qkv = "blocks.{0}.attn.qkv_proj.{1}",
    .out = "blocks.{0}.attn.out_proj.{1}",
    .norm2 = "blocks.{0}.ln2.{1}",
    .fc = "blocks.{0}.ffn.fc1.{1}",
    .proj = "blocks.{0}.ffn.fc2.{1}",
    .final_norm = "ln_final.{1}",
    .head = "output_proj.{1}",
};

std::vector<Preset> presets() {
  return {{"mini-gpt", "a book in hours; the Mini-GPT write-up's model",
           R"({"vocab_size": 256, "n_ctx": 256, "n_layer": 6, "n_head": 6, "n_embd": 384, "dropout": 0.1,
               "batch_size": 64, "lr": 3e-4, "steps": 5000, "warmup": 100, "weight_decay": 0.1, "clip_norm": 1.0,
               "beta2": 0.95, "eval_every": 100, "eval_batches": 50, "eval_train": true, "sample_every": 500})"}};
}

}  // namespace

constinit const Family family::mini_gpt = {
    .name = "mini-gpt",
    .switches = R"({"qkv_bias": false, "out_bias": false, "act": "gelu"})",
    .presets = presets,
    .namings = {&kNaming},
};

}  // namespace gpt
