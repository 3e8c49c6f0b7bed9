// The model of the chapter "GPT-2 from scratch".

#include "model/families/family.h"

namespace gpt {

constexpr Naming kNaming = {
    .outside = {"tok_emb.{1}", "pos_emb.{1}", "final_norm.{1}", "out_head.{1}"},
    .block = "trf_blocks.{0}.",
    .norms = {"norm1.{1}", "norm2.{1}"},
    .qkv = {"att.W_query.{1}", "att.W_key.{1}", "att.W_value.{1}"},
    .linear = {"att.out_proj.{1}", "ff.layers.0.{1}", "ff.layers.2.{1}"},
    .norm_words = {"scale", "shift"},
};

constexpr Preset kPresets[] = {
    {"gpt2-scratch", "GPT-2 from scratch: untied head, no q, k, v biases",
     R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768, "dropout": 0.1})"}};

constinit const Family family::gpt2_scratch = {
    .name = "gpt2-scratch",
    .switches = R"({"qkv_bias": false, "tie_embeddings": false, "init": "torch"})",
    .presets = kPresets,
    .namings = {&kNaming},
};

}  // namespace gpt
