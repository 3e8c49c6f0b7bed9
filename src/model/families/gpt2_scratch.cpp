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

constexpr Preset kPresets[] = {{"gpt2-scratch",
                                "GPT-2 from scratch: untied head, no q, k, v biases",
                                {.vocab_size = 50257},
                                [](ModelConfig& c) { c.dropout = 0.1; }}};

constexpr const char* kTelling[] = {"emb_dim", "context_length"};
constexpr ConfigKey kKeys[] = {{"emb_dim", &ModelConfig::n_embd},
                               {"context_length", &ModelConfig::n_ctx},
                               {"n_layers", &ModelConfig::n_layer},
                               {"n_heads", &ModelConfig::n_head},
                               {"dropout_rate", &ModelConfig::dropout}};
constexpr ForeignNames kForeignNames[] = {{.telling = kTelling,
                                           .program = "the chapter \"GPT-2 from scratch\"",
                                           .remedy = "`preset` gpt2-scratch",
                                           .keys = kKeys}};

constinit const Family family::gpt2_scratch = {
    .name = "gpt2-scratch",
    .switches =
        [](ModelConfig& c) {
          c.qkv_bias = c.tie_embeddings = false;
          c.init = Init::torch;
        },
    .presets = kPresets,
    .namings = {&kNaming},
    .foreign_names = kForeignNames,
};

}  // namespace gpt
