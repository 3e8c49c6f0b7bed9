// Mistral (Jiang et al. 2023): Llama with a sliding window.

#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr ConfigKey kKeys[] = {
    {"head_dim", "head_dim", Means::derived_or_zero},
    {"hidden_act", "act", Means::act, nullptr, kGatedActs},
    {"sliding_window", "sliding_window", Means::derived},
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
    .keys = kLlamaKeys,
    .more_keys = kKeys,
    .missing = R"({"vocab_size": 32000, "max_position_embeddings": 131072, "hidden_size": 4096,
                   "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
                   "intermediate_size": 14336, "bos_token_id": 1, "eos_token_id": 2})",
    .fixed = kDecoderOnly,
    .read = read,
    .write = write_rope,
    .causal_lm = "MistralForCausalLM",
    .sequence_classification = "MistralForSequenceClassification",
};

}  // namespace gpt
