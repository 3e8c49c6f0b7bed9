// GPT-1 (Radford et al. 2018) as in transformers: a norm after each sub-layer (post-norm), and no norm before
// the head.

#include "model/families/family.h"

namespace gpt {

constexpr Naming kNaming = {
    .outside = {"transformer.tokens_embed.{1}", "transformer.positions_embed.{1}", "transformer.ln_f.{1}",
                "lm_head.{1}"},
    .block = "transformer.h.{0}.",
    .norms = {"ln_1.{1}", "ln_2.{1}"},
    .qkv = {"attn.c_attn.{1}"},
    .linear = {"attn.c_proj.{1}", "mlp.c_fc.{1}", "mlp.c_proj.{1}"},
    .transposed_blocks = true,
};

constexpr ActName kActs[] = {{"gelu", Act::gelu_tanh}, {"relu", Act::relu}};

constexpr ConfigKey kKeys[] = {{"afn", &ModelConfig::act, Means::act, nullptr, kActs}};

constexpr Preset kPresets[] = {{"gpt1",
                                "GPT-1 (2018), post-norm",
                                {.vocab_size = 40478, .n_ctx = 512},
                                [](ModelConfig& c) { c.dropout = 0.1; },
                                kGpt1Training}};

constinit const Family family::openai_gpt = {
    .name = "openai-gpt",
    .switches =
        [](ModelConfig& c) {
          c.norm_position = NormPosition::post;
          c.final_norm = false;
        },
    .presets = kPresets,
    .namings = {&kNaming},
    .keys = kGptKeys,
    .more_keys = kKeys,
    .missing = {.vocab_size = 40478, .n_ctx = 512},
    .missing_dropout = 0.1,
    .holds = [](const ModelConfig& c) { return c.tie_embeddings; },
    .causal_lm = "OpenAIGPTLMHeadModel",
    .sequence_classification = "OpenAIGPTForSequenceClassification",
    .double_heads = "OpenAIGPTDoubleHeadsModel",
};

}  // namespace gpt
