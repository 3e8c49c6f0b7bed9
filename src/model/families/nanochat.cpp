// The version of nanochat that was ported to transformers.

#include <algorithm>

#include "base/json.h"
#include "base/printable.h"
#include "model/families/checkpoints.h"
#include "model/families/family.h"
#include "model/json_value.h"
#include "model/model_files.h"

namespace gpt {
namespace {

constexpr Naming kNaming = {
    .outside = {"model.embed_tokens.{1}", nullptr, "model.norm.{1}", "lm_head.{1}"},
    .block = "model.layers.{0}.",
    .norms = {"input_layernorm.{1}", "post_attention_layernorm.{1}"},
    .qkv = {"self_attn.q_proj.{1}", "self_attn.k_proj.{1}", "self_attn.v_proj.{1}"},
    .linear = {"self_attn.o_proj.{1}", "mlp.fc1.{1}", "mlp.fc2.{1}"},
};

// The depth N determines all other sizes: the width is 64 N, and a head has 128 channels.
// clang-format off
#define GPT_NANOCHAT(N)                                                                               \
  {"nanochat-d" #N, "nanochat of depth " #N ", which determines the width and the number of heads",   \
   {.vocab_size = 65536, .n_ctx = 2048, .n_layer = N, .n_head = N / 2, .n_kv_head = N / 2, .n_embd = 64 * N}, \
   [](ModelConfig& c) { c.norm_eps = 0x1p-23; }}
// clang-format on
constexpr Preset kPresets[] = {GPT_NANOCHAT(4),  GPT_NANOCHAT(6),  GPT_NANOCHAT(8),  GPT_NANOCHAT(10),
                               GPT_NANOCHAT(12), GPT_NANOCHAT(14), GPT_NANOCHAT(16), GPT_NANOCHAT(18),
                               GPT_NANOCHAT(20), GPT_NANOCHAT(22), GPT_NANOCHAT(24), GPT_NANOCHAT(26),
                               GPT_NANOCHAT(28), GPT_NANOCHAT(30), GPT_NANOCHAT(32)};

constexpr ConfigKey kKeys[] = {
    {"head_dim", &ModelConfig::head_dim, Means::size},
    {"hidden_act", &ModelConfig::act, Means::act, nullptr, kPlainActs},
    {"attention_bias", &ModelConfig::qkv_bias},
    {"attention_bias", &ModelConfig::out_bias},
    {"final_logit_softcapping", &ModelConfig::logit_softcap, Means::derived},
};

// Throws Error for tensors of newer nanochat models, whose architecture is not supported.
void refuse_newer(const TensorFiles& tensors, const std::string& path) {
  for (const TensorInfo* tensor : tensors.tensors()) {
    for (const char* part : {"value_embed", "ve_gate", "resid_lambdas", "x0_lambdas", "smear", "backout"}) {
      if (tensor->name.find(part) != std::string::npos) {
        fail_unsupported(
            "{}: the tensor {} belongs to a newer version of nanochat, whose architecture is not supported",
            path, printable(tensor->name));
      }
    }
  }
}

}  // namespace

// The norms of this nanochat version used the machine epsilon of fp32.
ModelConfig nanochat_config(const std::string& meta, const TensorFiles& tensors, const std::string& path) {
  refuse_newer(tensors, path);
  const nlohmann::json root = read_json_file(meta);
  if (!root.is_object() || !root.contains("model_config") || !root["model_config"].is_object()) {
    fail("{}: expected an object \"model_config\", found none", meta);
  }
  struct Key {
    std::string_view checkpoint, transformers;
  };
  constexpr Key kKnown[] = {{"sequence_len", "max_position_embeddings"},
                            {"vocab_size", "vocab_size"},
                            {"n_layer", "num_hidden_layers"},
                            {"n_head", "num_attention_heads"},
                            {"n_kv_head", "num_key_value_heads"},
                            {"n_embd", "hidden_size"}};
  nlohmann::json keys = {{"model_type", "nanochat"}, {"rms_norm_eps", 0x1p-23}};
  for (const auto& [name, value] : root["model_config"].items()) {
    const std::string& key = name;
    const auto known = std::ranges::find_if(kKnown, [&](const Key& k) { return k.checkpoint == key; });
    if (known == std::end(kKnown)) {
      fail_unsupported(
          "{}: \"model_config\" has the key {} of a newer version of nanochat, whose architecture is not "
          "supported",
          meta, printable(key));
    }
    keys[known->transformers] = value;
  }
  int64_t width = 768;
  from_json_value("n_embd", keys.value("hidden_size", nlohmann::json(width)), width);
  keys["intermediate_size"] = 4 * std::clamp<int64_t>(width, 0, 1 << 20);
  return model_config_from_json(keys, meta);
}

void set_nanochat_switches(ModelConfig& c) {
  c.norm = NormKind::rms;
  c.norm_affine = false;
  c.norm_eps = 1e-6;
  c.embd_norm = c.qk_norm = true;
  c.position = Position::rope;
  c.rope_sign = -1;
  c.act = Act::relu2;
  c.qkv_bias = c.out_bias = c.mlp_bias = c.tie_embeddings = false;
  c.logit_softcap = 15;
  c.init = Init::nanochat;
}

constinit const Family family::nanochat = {
    .name = "nanochat",
    .switches = set_nanochat_switches,
    .presets = kPresets,
    .namings = {&kNaming},
    .keys = kLlamaKeys,
    .more_keys = kKeys,
    .missing = {.vocab_size = 50304, .n_ctx = 2048, .n_head = 6, .d_ff = 8192},
    .bos_token_id = 0,
    .eos_token_id = 1,
    .fixed = kDecoderOnly,
    .read = read_rope,
    .write = write_rope,
    .no_window = true,
    .holds = [](const ModelConfig& c) { return c.rope_scaling.type == RopeScaling::Type::none; },
    .causal_lm = "NanoChatForCausalLM",
    .chat_template = "nanochat",
};

}  // namespace gpt
