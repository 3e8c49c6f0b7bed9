// The model of the nanochat notebook.

#include "model/families/family.h"

namespace gpt {

constexpr Naming kNaming = {
    .outside = {"wte.{1}", nullptr, nullptr, "lm_head.{1}"},
    .block = "blocks.{0}.",
    .qkv = {"attn.c_q.{1}", "attn.c_k.{1}", "attn.c_v.{1}"},
    .linear = {"attn.c_proj.{1}", "mlp.c_fc.{1}", "mlp.c_proj.{1}"},
};

constexpr Preset kPresets[] = {
    {"nanochat", "model of the nanochat notebook", {.vocab_size = 50304, .n_head = 6, .n_kv_head = 6}},
    {"nanochat-demo",
     "a small nanochat model for any machine",
     {.vocab_size = 512, .n_ctx = 128, .n_layer = 4, .n_head = 4, .n_kv_head = 4, .n_embd = 256}},
};

constexpr const char* kTelling[] = {"sequence_len"};
constexpr ActName kActs[] = {{"relu_squared", Act::relu2}};
constexpr ConfigKey kKeys[] = {{"sequence_len", &ModelConfig::n_ctx},
                               {"rope_rotation", &ModelConfig::rope_sign},
                               {"act", &ModelConfig::act, Means::act, nullptr, kActs}};
constexpr ForeignNames kForeignNames[] = {
    {.telling = kTelling,
     .program = "nanochat",
     .remedy = "`preset` nanochat (the notebook), nanochat-doc (the document) or nanochat-d20 (as released)",
     .keys = kKeys}};

constinit const Family family::nanochat_notebook = {
    .name = "nanochat-notebook",
    .switches =
        [](ModelConfig& c) {
          set_nanochat_switches(c);
          c.norm_eps = 0x1p-23;
          c.logit_softcap = 0;
          c.init = Init::torch;
        },
    .presets = kPresets,
    .namings = {&kNaming},
    .foreign_names = kForeignNames,
};

}  // namespace gpt
