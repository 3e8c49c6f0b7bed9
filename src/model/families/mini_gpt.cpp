// The model of the Mini-GPT course unit.

#include "model/families/family.h"

namespace gpt {

constexpr Naming kNaming = {
    .outside = {"token_embedding.{1}", "position_embedding.{1}", "ln_final.{1}", "output_proj.{1}"},
    .block = "blocks.{0}.",
    .norms = {"ln1.{1}", "ln2.{1}"},
    .qkv = {"attn.qkv_proj.{1}"},
    .linear = {"attn.out_proj.{1}", "ffn.fc1.{1}", "ffn.fc2.{1}"},
};

constexpr Preset kPresets[] = {
    {"mini-gpt", "a book in hours; the Mini-GPT write-up's model",
     R"({"vocab_size": 256, "n_ctx": 256, "n_layer": 6, "n_head": 6, "n_embd": 384, "dropout": 0.1,
         "batch_size": 64, "lr": 3e-4, "steps": 5000, "warmup": 100, "weight_decay": 0.1, "clip_norm": 1.0,
         "beta2": 0.95, "eval_every": 100, "eval_batches": 50, "eval_train": true, "sample_every": 500})"}};

constinit const Family family::mini_gpt = {
    .name = "mini-gpt",
    .switches = R"({"qkv_bias": false, "out_bias": false, "act": "gelu"})",
    .presets = kPresets,
    .namings = {&kNaming},
};

}  // namespace gpt
