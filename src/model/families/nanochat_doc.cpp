// The model of the nanochat document's code; the shape that its text states, 20 blocks of 512 with 6 heads,
// does not exist.

#include "model/families/family.h"

namespace gpt {

constexpr Naming kNaming = {
    .outside = {"transformer.wte.{1}", nullptr, nullptr, "lm_head.{1}"},
    .block = "transformer.h.{0}.",
    .qkv = {"attn.c_q.{1}", "attn.c_k.{1}", "attn.c_v.{1}"},
    .linear = {"attn.c_proj.{1}", "mlp.c_fc.{1}", "mlp.c_proj.{1}"},
};

constexpr Preset kPresets[] = {
    {"nanochat-doc", "nanochat, the document's model",
     R"({"vocab_size": 50304, "n_ctx": 1024, "n_layer": 12, "n_head": 6, "n_kv_head": 6, "n_embd": 768})"}};

constinit const Family family::nanochat_doc = {
    .name = "nanochat-doc",
    .switches = R"({"norm": "rms", "norm_affine": false, "norm_eps": 1.1920928955078125e-07,
                    "embd_norm": true, "qk_norm": true, "position": "rope", "rope_sign": 1,
                    "act": "relu2", "qkv_bias": false, "out_bias": false, "mlp_bias": false,
                    "tie_embeddings": false, "logit_softcap": 15, "init": "nanochat"})",
    .presets = kPresets,
    .namings = {&kNaming},
};

}  // namespace gpt
