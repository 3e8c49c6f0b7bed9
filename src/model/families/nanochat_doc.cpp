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
    {"nanochat-doc", "nanochat, the document's model", {.vocab_size = 50304, .n_head = 6, .n_kv_head = 6}}};

constinit const Family family::nanochat_doc = {
    .name = "nanochat-doc",
    .switches =
        [](ModelConfig& c) {
          set_nanochat_switches(c);
          c.norm_eps = 0x1p-23;
          c.rope_sign = 1;
        },
    .presets = kPresets,
    .namings = {&kNaming},
};

}  // namespace gpt
