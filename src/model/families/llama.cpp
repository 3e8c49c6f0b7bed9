// The Llama family (Touvron et al. 2023), including checkpoints of llama2.c.

#include "model/families/checkpoints.h"
#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {

void set_llama_switches(ModelConfig& c) {
  c.norm = NormKind::rms;
  c.norm_eps = 1e-6;
  c.position = Position::rope;
  c.act = Act::swiglu;
  c.qkv_bias = c.out_bias = c.mlp_bias = c.tie_embeddings = false;
}

static void set_llama3(ModelConfig& c) {
  c.norm_eps = 1e-5;
  c.rope_theta = 500000;
}

// clang-format off
constexpr Preset kPresets[] = {
    {"llama3-8b", "Llama 3.1 8B, to estimate parameters and memory",
     {.vocab_size = 128256, .n_ctx = 131072, .n_layer = 32, .n_head = 32, .n_kv_head = 8, .n_embd = 4096, .d_ff = 14336},
     [](ModelConfig& c) {
       set_llama3(c);
       c.rope_scaling = {.type = RopeScaling::Type::llama3, .factor = 8, .original_n_ctx = 8192};
     }},
    {"llama-small", "Llama layers at the size of GPT-2, for benchmarks", {.vocab_size = 50257, .d_ff = 2048}},
    {"llama-1b", "the layer sizes of Llama 3.2 1B, for benchmarks",
     {.vocab_size = 50257, .n_ctx = 2048, .n_layer = 16, .n_head = 32, .n_kv_head = 8, .n_embd = 2048, .d_ff = 8192},
     set_llama3},
    // The demo model learns the built-in tales in about a minute on two cores.
    {"tiny", "a first model, trains in about a minute",
     {.vocab_size = 256, .n_ctx = 192, .n_layer = 4, .n_head = 4, .n_kv_head = 2, .n_embd = 128, .d_ff = 352},
     [](ModelConfig& c) {
       c.tie_embeddings = c.residual_init_scale = true;
       c.dropout = 0;
     },
     {.tokenizer = "byte", .batch_size = 16, .steps = 750, .warmup = 50, .lr = 4e-3, .beta2 = 0.99,
      .weight_decay = 0.1, .eval_every = 150, .eval_batches = 10, .sample_every = 375}},
};
// clang-format on

constexpr ConfigKey kKeys[] = {
    {"head_dim", &ModelConfig::head_dim, Means::derived},
    {"hidden_act", &ModelConfig::act, Means::act, nullptr, kGatedActs},
    {"attention_bias", &ModelConfig::qkv_bias},
    {"attention_bias", &ModelConfig::out_bias},
    {"mlp_bias", &ModelConfig::mlp_bias},
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
  ModelConfig c = family_config(family::llama);
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
  if (c.vocab_size > 2) {  // convention of SentencePiece, which run.c relies on
    c.bos_token_id = 1;
    c.eos_token_ids = {2};
  }
  return c;
}

constexpr const char* kTelling[] = {"hidden_size",         "num_hidden_layers", "num_attention_heads",
                                    "num_key_value_heads", "intermediate_size", "max_position_embeddings"};
constexpr ForeignNames kForeignNames[] = {
    {.telling = kTelling, .program = "transformers", .remedy = "a \"model_type\" in the file"}};

constinit const Family family::llama = {
    .name = "llama",
    .switches = set_llama_switches,
    .presets = kPresets,
    .namings = {&kLlamaNaming},
    .keys = kLlamaKeys,
    .more_keys = kKeys,
    .missing =
        {.vocab_size = 32000, .n_ctx = 2048, .n_layer = 32, .n_head = 32, .n_embd = 4096, .d_ff = 11008},
    .bos_token_id = 1,
    .eos_token_id = 2,
    .fixed = kDecoderOnly,
    .read = read_rope,
    .write = write_rope,
    .no_window = true,
    // Unlike Mistral, Llama in transformers requires that n_embd is a multiple of n_head.
    .holds = [](const ModelConfig& c) { return c.n_embd % c.n_head == 0; },
    .causal_lm = "LlamaForCausalLM",
    .sequence_classification = "LlamaForSequenceClassification",
    .gguf = {"llama", &kGgufNaming, RopeLayout::interleaved, true},
    .foreign_names = kForeignNames,
};

}  // namespace gpt
