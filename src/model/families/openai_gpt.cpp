// GPT-1 (Radford et al. 2018), as transformers has it: norms behind the layers, none before the head.

#include "model/families/family.h"

namespace gpt {
namespace {

constexpr Naming kNaming = {
    .outside = {"transformer.tokens_embed.{1}", "transformer.positions_embed.{1}", "transformer.ln_f.{1}",
                "lm_head.{1}"},
    .block = "transformer.h.{0}.",
    .norms = {"ln_1.{1}", "ln_2.{1}"},
    .qkv = {"attn.c_attn.{1}"},
    .linear = {"attn.c_proj.{1}", "mlp.c_fc.{1}", "mlp.c_proj.{1}"},
    .transposed_blocks = true,
};

std::vector<Preset> presets() {
  return {{"gpt1", "GPT-1 of 2018: norms behind the layers",
           R"({"vocab_size": 40478, "n_ctx": 512, "n_layer": 12, "n_head": 12, "n_embd": 768,
               "dropout": 0.1, "batch_size": 64, "lr": 2.5e-4, "min_lr": 0, "warmup": 2000, "weight_decay": 0.01,
               "sampling": "epoch"})"}};
}

constexpr ActName kActs[] = {{"gelu", Act::gelu_tanh}, {"relu", Act::relu}};

constexpr ConfigKey kKeys[] = {
    {"vocab_size", "vocab_size", Means::size, "40478"},
    {"n_positions", "n_ctx", Means::size, "512", "max_position_embeddings"},
    {"n_embd", "n_embd", Means::size, "768", "hidden_size"},
    {"n_layer", "n_layer", Means::size, "12", "num_hidden_layers"},
    {"n_head", "n_head", Means::size, "12", "num_attention_heads"},
    {"afn", "act", Means::act, R"("gelu")", nullptr, kActs},
    {"layer_norm_epsilon", "norm_eps", Means::value, "1e-5"},
    {"embd_pdrop", "embd_dropout", Means::dropout, "0.1"},
    {"attn_pdrop", "attn_dropout", Means::dropout, "0.1"},
    {"resid_pdrop", "resid_dropout", Means::dropout, "0.1"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "true"},
};

bool is_tied(const ModelConfig& c) {
  return c.tie_embeddings;
}

}  // namespace

constinit const Family family::openai_gpt = {
    .name = "openai-gpt",
    .switches = R"({"norm_position": "post", "final_norm": false})",
    .presets = presets,
    .namings = {&kNaming},
    .keys = kKeys,
    .holds = is_tied,
    .causal_lm = "OpenAIGPTLMHeadModel",
    .sequence_classification = "OpenAIGPTForSequenceClassification",
};

}  // namespace gpt
