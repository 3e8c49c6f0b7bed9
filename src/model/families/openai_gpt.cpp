// GPT-1 (Radford et al. 2018), as transformers has it: norms behind the layers, none before the head.

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

constexpr ConfigKey kKeys[] = {{"afn", "act", Means::act, nullptr, kActs}};

constexpr Preset kPresets[] = {
    {"gpt1", "GPT-1 of 2018: norms behind the layers",
     R"({"vocab_size": 40478, "n_ctx": 512, "n_layer": 12, "n_head": 12, "n_embd": 768,
         "dropout": 0.1, "batch_size": 64, "lr": 2.5e-4, "min_lr": 0, "warmup": 2000, "weight_decay": 0.01,
         "sampling": "epoch"})"}};

constinit const Family family::openai_gpt = {
    .name = "openai-gpt",
    .switches = R"({"norm_position": "post", "final_norm": false})",
    .presets = kPresets,
    .namings = {&kNaming},
    .keys = kGptKeys,
    .more_keys = kKeys,
    .missing = R"({"vocab_size": 40478, "n_positions": 512, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
                   "resid_pdrop": 0.1})",
    .holds = [](const ModelConfig& c) { return c.tie_embeddings; },
    .causal_lm = "OpenAIGPTLMHeadModel",
    .sequence_classification = "OpenAIGPTForSequenceClassification",
    .double_heads = "OpenAIGPTDoubleHeadsModel",
};

}  // namespace gpt
