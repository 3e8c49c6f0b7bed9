// GPT-2 (Radford et al. 2019), and the programs that write it: transformers, llm.c, minGPT, nanoGPT.

#include "model/families/family.h"

namespace gpt {
namespace {

constexpr Naming transformers_naming(bool transposed_blocks) {
  return {
      .outside = {"transformer.wte.{1}", "transformer.wpe.{1}", "transformer.ln_f.{1}", "lm_head.{1}"},
      .block = "transformer.h.{0}.",
      .norms = {"ln_1.{1}", "ln_2.{1}"},
      .qkv = {"attn.c_attn.{1}"},
      .linear = {"attn.c_proj.{1}", "mlp.c_fc.{1}", "mlp.c_proj.{1}"},
      .transposed_blocks = transposed_blocks,
  };
}
constexpr Naming kNaming = transformers_naming(true);

std::vector<Preset> presets() {
  return {
      {"gpt2", "GPT-2 of 2019, the smallest",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768})"},
      {"gpt2-medium", "GPT-2, 24 blocks",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 24, "n_head": 16, "n_embd": 1024})"},
      {"gpt2-large", "GPT-2, 36 blocks",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 36, "n_head": 20, "n_embd": 1280})"},
      {"gpt2-xl", "GPT-2, 48 blocks",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 48, "n_head": 25, "n_embd": 1600})"},
      {"gpt3-175b", "GPT-3 of 2020, to count and plan with",
       R"({"vocab_size": 50257, "n_ctx": 2048, "n_layer": 96, "n_head": 96, "n_embd": 12288})"},
      // no biases, exact GELU
      {"nanogpt-cpu", "a small text in minutes, by characters (nanoGPT's)",
       R"({"n_ctx": 64, "n_layer": 4, "n_head": 4, "n_embd": 128, "act": "gelu", "norm_bias": false,
           "qkv_bias": false, "out_bias": false, "mlp_bias": false, "dropout": 0, "tokenizer": "char",
           "batch_size": 12, "steps": 2000, "lr": 1e-3, "min_lr": 1e-4, "warmup": 100, "beta2": 0.99,
           "weight_decay": 0.1, "clip_norm": 1.0, "eval_every": 250})"},
  };
}

constexpr ConfigKey kKeys[] = {
    {"vocab_size", "vocab_size", Means::size, "50257"},
    {"n_positions", "n_ctx", Means::size, "1024", "max_position_embeddings"},
    {"n_embd", "n_embd", Means::size, "768", "hidden_size"},
    {"n_layer", "n_layer", Means::size, "12", "num_hidden_layers"},
    {"n_head", "n_head", Means::size, "12", "num_attention_heads"},
    {"n_inner", "d_ff", Means::derived, nullptr},
    {"activation_function", "act", Means::act, R"("gelu_new")", nullptr, kPlainActs},
    {"layer_norm_epsilon", "norm_eps", Means::value, "1e-5"},
    {"embd_pdrop", "embd_dropout", Means::dropout, "0.1"},
    {"attn_pdrop", "attn_dropout", Means::dropout, "0.1"},
    {"resid_pdrop", "resid_dropout", Means::dropout, "0.1"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "true"},
};

constexpr FixedKey kFixed[] = {{"is_causal", "[true, null]"},
                               {"attribute_map", "[{}]"},
                               {"scale_attn_weights", "[true]"},
                               {"scale_attn_by_inverse_layer_idx", "[false]"}};

}  // namespace

constinit const Naming kNanoGptNaming = transformers_naming(false);

constinit const Naming kLlmcNaming = {
    .outside = {"wte", "wpe", "lnf{1}"},
    .norms = {"ln1{1}.{0}", "ln2{1}.{0}"},
    .qkv = {"qkv{1}.{0}"},
    .linear = {"attproj{1}.{0}", "fc{1}.{0}", "fcproj{1}.{0}"},
    .words = {"w", "b"},
    .norm_words = {"w", "b"},
};

constinit const Family family::gpt2 = {
    .name = "gpt2",
    .switches = R"({"residual_init_scale": true})",
    .presets = presets,
    .namings = {&kNaming, &kNanoGptNaming},
    .keys = kKeys,
    .fixed = kFixed,
    .bos = "50256",
    .eos = "50256",
    .read = [](const nlohmann::json& object, ModelConfig& c) { check_no_window(object, c); },
    .causal_lm = "GPT2LMHeadModel",
    .sequence_classification = "GPT2ForSequenceClassification",
    .gguf = {"gpt2", &kGgufFusedNaming},
};

}  // namespace gpt
