// nanochat as it was when transformers took it over.

#include <fmt/core.h>

#include "model/families/family.h"

namespace gpt {
namespace {

constexpr Naming kNaming = {
    .outside = {"model.embed_tokens.{1}", nullptr, "model.norm.{1}", "lm_head.{1}"},
    .block = "model.layers.{0}.",
    .norms = {"input_layernorm.{1}", "post_attention_layernorm.{1}"},
    .qkv = {"self_attn.q_proj.{1}", "self_attn.k_proj.{1}", "self_attn.v_proj.{1}"},
    .linear = {"self_attn.o_proj.{1}", "mlp.fc1.{1}", "mlp.fc2.{1}"},
};

// Depth sets everything else: width 64 N, heads of 128.
std::vector<Preset> presets() {
  std::vector<Preset> all;
  for (int depth = 4; depth <= 32; depth += 2) {
    all.push_back({fmt::format("nanochat-d{}", depth),
                   fmt::format("nanochat of depth {}, which sets width and heads", depth),
                   fmt::format(R"({{"vocab_size": 65536, "n_ctx": 2048, "norm_eps": 1.1920928955078125e-07,
                                   "n_layer": {}, "n_embd": {}, "n_head": {}, "n_kv_head": {}}})",
                               depth, 64 * depth, depth / 2, depth / 2)});
  }
  return all;
}

constexpr ConfigKey kKeys[] = {
    {"vocab_size", "vocab_size", Means::size, "50304"},
    {"max_position_embeddings", "n_ctx", Means::size, "2048"},
    {"hidden_size", "n_embd", Means::size, "768"},
    {"num_hidden_layers", "n_layer", Means::size, "12"},
    {"num_attention_heads", "n_head", Means::size, "6"},
    {"num_key_value_heads", "n_kv_head", Means::derived, nullptr},
    {"head_dim", "head_dim", Means::size, nullptr},
    {"intermediate_size", "d_ff", Means::size, "8192"},
    {"hidden_act", "act", Means::act, R"("relu2")", nullptr, kPlainActs},
    {"rms_norm_eps", "norm_eps", Means::value, "1e-6"},
    {"attention_bias", "qkv_bias", Means::value, "false"},
    {"attention_bias", "out_bias", Means::value, "false"},
    {"final_logit_softcapping", "logit_softcap", Means::softcap, "15"},
    {"attention_dropout", "attn_dropout", Means::dropout, "0"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "false"},
};

void read(const nlohmann::json& object, ModelConfig& c) {
  read_rope(object, c);
  check_no_window(object, c);
}

bool has_plain_rope(const ModelConfig& c) {
  return c.rope_scaling.type == RopeScaling::Type::none;
}

}  // namespace

constinit const Family family::nanochat = {
    .name = "nanochat",
    .switches = R"({"norm": "rms", "norm_affine": false, "norm_eps": 1e-6, "embd_norm": true, "qk_norm": true,
                    "position": "rope", "rope_sign": -1, "act": "relu2", "qkv_bias": false, "out_bias": false,
                    "mlp_bias": false, "tie_embeddings": false, "logit_softcap": 15, "init": "nanochat"})",
    .presets = presets,
    .namings = {&kNaming},
    .keys = kKeys,
    .fixed = kDecoderOnly,
    .bos = "0",
    .eos = "1",
    .read = read,
    .write = write_rope,
    .holds = has_plain_rope,
    .causal_lm = "NanoChatForCausalLM",
};

}  // namespace gpt
