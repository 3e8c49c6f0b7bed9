// The model that the code in the nanochat document defines. The text of the document states a different
// shape, 20 layers of width 512 with 6 heads, which is not possible because 6 does not divide 512.

#include "model/families/family.h"

namespace gpt {

constexpr Naming kNaming = {
    .outside = {"transformer.wte.{1}", nullptr, nullptr, "lm_head.{1}"},
    .block = "transformer.h.{0}.",
    .qkv = {"attn.c_q.{1}", "attn.c_k.{1}", "attn.c_v.{1}"},
    .linear = {"attn.c_proj.{1}", "mlp.c_fc.{1}", "mlp.c_proj.{1}"},
};

constexpr Preset kPresets[] = {
    {"nanochat-doc", "model of the nanochat document", {.vocab_size = 50304, .n_head = 6, .n_kv_head = 6}}};

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
