// Llama (Touvron et al. 2023), and llama2.c's files of it.

#include "model/families/family.h"

namespace gpt {
namespace {

std::vector<Preset> presets() {
  return {
      {"llama3-8b", "Llama 3.1 8B, to count and plan with",
       R"({"vocab_size": 128256, "n_ctx": 131072, "n_layer": 32, "n_head": 32, "n_kv_head": 8, "n_embd": 4096,
           "d_ff": 14336, "norm_eps": 1e-5, "rope_theta": 500000,
           "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                            "original_max_position_embeddings": 8192}})"},
      {"llama-small", "for measuring: Llama's layers in GPT-2's size",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768, "d_ff": 2048})"},
      {"llama-1b", "for measuring: the widths of Llama 3.2 1B",
       R"({"vocab_size": 50257, "n_ctx": 2048, "n_layer": 16, "n_head": 32, "n_kv_head": 8, "n_embd": 2048,
           "d_ff": 8192, "norm_eps": 1e-5, "rope_theta": 500000})"},
      // the demo: learns the built-in tales in about a minute on two cores
      {"tiny", "a first model: learns the tales in about a minute",
       R"({"vocab_size": 256, "n_ctx": 192, "n_layer": 4, "n_head": 4, "n_kv_head": 2, "n_embd": 128, "d_ff": 352,
           "tie_embeddings": true, "residual_init_scale": true, "dropout": 0, "tokenizer": "byte", "batch_size": 16,
           "steps": 750, "lr": 4e-3, "warmup": 50, "beta2": 0.99, "weight_decay": 0.1, "eval_every": 150,
           "eval_batches": 10, "sample_every": 375})"},
  };
}

constexpr ConfigKey kKeys[] = {
    {"vocab_size", "vocab_size", Means::size, "32000"},
    {"max_position_embeddings", "n_ctx", Means::size, "2048"},
    {"hidden_size", "n_embd", Means::size, "4096"},
    {"num_hidden_layers", "n_layer", Means::size, "32"},
    {"num_attention_heads", "n_head", Means::size, "32"},
    {"num_key_value_heads", "n_kv_head", Means::derived, nullptr},
    {"head_dim", "head_dim", Means::derived, nullptr},
    {"intermediate_size", "d_ff", Means::size, "11008"},
    {"hidden_act", "act", Means::act, R"("silu")", nullptr, kGatedActs},
    {"rms_norm_eps", "norm_eps", Means::value, "1e-6"},
    {"attention_bias", "qkv_bias", Means::value, "false"},
    {"attention_bias", "out_bias", Means::value, "false"},
    {"mlp_bias", "mlp_bias", Means::value, "false"},
    {"attention_dropout", "attn_dropout", Means::dropout, "0"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "false"},
};

void read(const nlohmann::json& object, ModelConfig& c) {
  read_rope(object, c);
  check_no_window(object, c);
}

// transformers' Llama, unlike its Mistral, wants a width that is a multiple of its heads.
bool has_even_heads(const ModelConfig& c) {
  return c.n_embd % c.n_head == 0;
}

}  // namespace

constinit const Naming kLlamaNaming = {
    .outside = {"model.embed_tokens.{1}", nullptr, "model.norm.{1}", "lm_head.{1}"},
    .block = "model.layers.{0}.",
    .norms = {"input_layernorm.{1}", "post_attention_layernorm.{1}"},
    .qkv = {"self_attn.q_proj.{1}", "self_attn.k_proj.{1}", "self_attn.v_proj.{1}"},
    .linear = {"self_attn.o_proj.{1}", "mlp.up_proj.{1}", "mlp.down_proj.{1}", "mlp.gate_proj.{1}"},
};

constinit const Naming kLlama2cNaming = {
    .outside = {"tok_emb", nullptr, "rms_final", "wcls"},
    .norms = {"rms_att.{0}", "rms_ffn.{0}"},
    .qkv = {"wq.{0}", "wk.{0}", "wv.{0}"},
    .linear = {"wo.{0}", "w3.{0}", "w2.{0}", "w1.{0}"},
};

constinit const Family family::llama = {
    .name = "llama",
    .switches = R"({"norm": "rms", "position": "rope", "act": "swiglu", "qkv_bias": false, "out_bias": false,
                    "mlp_bias": false, "tie_embeddings": false, "norm_eps": 1e-6})",
    .presets = presets,
    .namings = {&kLlamaNaming},
    .keys = kKeys,
    .fixed = kDecoderOnly,
    .bos = "1",
    .eos = "2",
    .read = read,
    .write = write_rope,
    .holds = has_even_heads,
    .causal_lm = "LlamaForCausalLM",
    .sequence_classification = "LlamaForSequenceClassification",
    .gguf = {"llama", &kGgufNaming, RopeLayout::interleaved, true},
};

}  // namespace gpt
