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

// clang-format off
constexpr Preset kPresets[] = {
    {"mini-gpt", "Mini-GPT course unit: a book, hours",
     {.vocab_size = 256, .n_ctx = 256, .n_layer = 6, .n_head = 6, .n_embd = 384},
     [](ModelConfig& c) { c.dropout = 0.1; },
     {.batch_size = 64, .steps = 5000, .warmup = 100, .lr = 3e-4, .beta2 = 0.95, .weight_decay = 0.1,
      .clip_norm = 1.0, .eval_every = 100, .eval_batches = 50, .sample_every = 500, .eval_train = true}}};
// clang-format on

constexpr const char *kTelling[] = {"d_model", "max_seq_len"},
                     *kSharedTelling[] = {"n_layers", "n_heads", "n_kv_heads"};
constexpr ConfigKey kKeys[] = {{"d_model", &ModelConfig::n_embd},
                               {"max_seq_len", &ModelConfig::n_ctx},
                               {"n_layers", &ModelConfig::n_layer},
                               {"n_heads", &ModelConfig::n_head},
                               {"n_kv_heads", &ModelConfig::n_kv_head}};
constexpr ForeignNames kForeignNames[] = {{.telling = kTelling,
                                           .program = "the Mini-GPT course unit",
                                           .remedy = "`preset` mini-gpt",
                                           .keys = kKeys},
                                          {.telling = kSharedTelling,
                                           .program = "several projects",
                                           .remedy = "`preset` gpt2-scratch or `preset` mini-gpt"}};

constinit const Family family::mini_gpt = {
    .name = "mini-gpt",
    .switches =
        [](ModelConfig& c) {
          c.qkv_bias = c.out_bias = false;
          c.act = Act::gelu;
        },
    .presets = kPresets,
    .namings = {&kNaming},
    .foreign_names = kForeignNames,
};

}  // namespace gpt
