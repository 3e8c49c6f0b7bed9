// The nanochat notebook's model.

#include "model/families/family.h"

namespace gpt {

constexpr Naming kNaming = {
    .outside = {"wte.{1}", nullptr, nullptr, "lm_head.{1}"},
    .block = "blocks.{0}.",
    .qkv = {"attn.c_q.{1}", "attn.c_k.{1}", "attn.c_v.{1}"},
    .linear = {"attn.c_proj.{1}", "mlp.c_fc.{1}", "mlp.c_proj.{1}"},
};

constexpr Preset kPresets[] = {
    {"nanochat", "nanochat, the notebook's model",
     R"({"vocab_size": 50304, "n_ctx": 1024, "n_layer": 12, "n_head": 6, "n_kv_head": 6, "n_embd": 768})"},
    {"nanochat-demo", "nanochat's layers at a size for any machine",
     R"({"vocab_size": 512, "n_ctx": 128, "n_layer": 4, "n_head": 4, "n_kv_head": 4, "n_embd": 256})"},
};

constinit const Family family::nanochat_notebook = {
    .name = "nanochat-notebook",
    .switches = R"({"norm": "rms", "norm_affine": false, "norm_eps": 1.1920928955078125e-07,
                    "embd_norm": true, "qk_norm": true, "position": "rope", "rope_sign": -1,
                    "act": "relu2", "qkv_bias": false, "out_bias": false, "mlp_bias": false,
                    "tie_embeddings": false, "init": "torch"})",
    .presets = kPresets,
    .namings = {&kNaming},
};

}  // namespace gpt
