// Llama (Touvron et al. 2023), and llama2.c's files of it.

#include "model/families/checkpoints.h"
#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {

constexpr Preset kPresets[] = {
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

constexpr ConfigKey kKeys[] = {
    {"head_dim", "head_dim", Means::derived},
    {"hidden_act", "act", Means::act, nullptr, kGatedActs},
    {"attention_bias", "qkv_bias"},
    {"attention_bias", "out_bias"},
    {"mlp_bias", "mlp_bias"},
};

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

ModelConfig llama2c_config(const Llama2cHeader& h) {
  ModelConfig c;
  read_model_keys(family_switches(family::llama), c);
  c.rope_layout = RopeLayout::interleaved;
  c.norm_eps = 1e-5;
  c.n_embd = h.dim;
  c.d_ff = h.hidden_dim;
  c.n_layer = h.n_layers;
  c.n_head = h.n_heads;
  c.n_kv_head = h.n_kv_heads;
  c.vocab_size = h.vocab_size;
  c.n_ctx = h.seq_len;
  c.tie_embeddings = h.tied;
  if (c.vocab_size > 2) {  // SentencePiece's convention, which run.c relies on
    c.bos_token_id = 1;
    c.eos_token_ids = {2};
  }
  return c;
}

constinit const Family family::llama = {
    .name = "llama",
    .switches = R"({"norm": "rms", "position": "rope", "act": "swiglu", "qkv_bias": false, "out_bias": false,
                    "mlp_bias": false, "tie_embeddings": false, "norm_eps": 1e-6})",
    .presets = kPresets,
    .namings = {&kLlamaNaming},
    .keys = kLlamaKeys,
    .more_keys = kKeys,
    .missing = R"({"vocab_size": 32000, "max_position_embeddings": 2048, "hidden_size": 4096,
                   "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
                   "bos_token_id": 1, "eos_token_id": 2})",
    .fixed = kDecoderOnly,
    .read = read_rope,
    .write = write_rope,
    .no_window = true,
    // transformers' Llama, unlike its Mistral, wants a width that is a multiple of its heads.
    .holds = [](const ModelConfig& c) { return c.n_embd % c.n_head == 0; },
    .causal_lm = "LlamaForCausalLM",
    .sequence_classification = "LlamaForSequenceClassification",
    .gguf = {"llama", &kGgufNaming, RopeLayout::interleaved, true},
};

}  // namespace gpt
