// Mistral (Jiang et al. 2023): Llama with a sliding window.

#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr ConfigKey kKeys[] = {
    {"vocab_size", "vocab_size", Means::size, "32000"},
    {"max_position_embeddings", "n_ctx", Means::size, "131072"},
    {"hidden_size", "n_embd", Means::size, "4096"},
    {"num_hidden_layers", "n_layer", Means::size, "32"},
    {"num_attention_heads", "n_head", Means::size, "32"},
    {"num_key_value_heads", "n_kv_head", Means::derived, "8"},
    {"head_dim", "head_dim", Means::derived_or_zero, nullptr},
    {"intermediate_size", "d_ff", Means::size, "14336"},
    {"hidden_act", "act", Means::act, R"("silu")", nullptr, kGatedActs},
    {"rms_norm_eps", "norm_eps", Means::value, "1e-6"},
    {"sliding_window", "sliding_window", Means::derived, "4096"},
    {"attention_dropout", "attn_dropout", Means::dropout, "0"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "false"},
};

// With layer_types, even null, transformers takes it for a Ministral.
void read_ministral_window(const json& object, ModelConfig& c) {
  const json& layers = object["layer_types"];
  const int64_t sliding = layers.is_null() ? c.n_layer : sliding_layers(layers, c);
  if (c.sliding_window == 0)
    wrong_value("sliding_window", "a number above 0, as there are layer_types", nullptr);
  set_window("layer_types", sliding, c.sliding_window, c);
}

// A Mistral has its window in all layers.
void read(const json& object, ModelConfig& c) {
  read_rope(object, c);
  if (object.contains("layer_types")) return read_ministral_window(object, c);
  if (c.sliding_window == 0) check_no_window(object, c);
}

}  // namespace

constinit const Family family::mistral = {
    .name = "mistral",
    .switches = R"({"norm": "rms", "position": "rope", "act": "swiglu", "qkv_bias": false, "out_bias": false,
                    "mlp_bias": false, "tie_embeddings": false, "norm_eps": 1e-6, "sliding_window": 4096})",
    .namings = {&kLlamaNaming},
    .keys = kKeys,
    .fixed = kDecoderOnly,
    .bos = "1",
    .eos = "2",
    .read = read,
    .write = write_rope,
    .causal_lm = "MistralForCausalLM",
    .sequence_classification = "MistralForSequenceClassification",
};

}  // namespace gpt
