#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/config.h"

namespace gpt {

struct Family;

// The field of ModelConfig that a key sets.
using ConfigField =
    std::variant<int64_t ModelConfig::*, double ModelConfig::*, bool ModelConfig::*, Act ModelConfig::*>;
// Returns the name of the field in gpt.cpp files.
const char* field_name(const ConfigField& field);

// How the value of a key is converted to the value of its field.
enum class Means : uint8_t {
  value,            // the value is used unchanged
  size,             // a number above 0
  derived,          // a number above 0; null: 0, which means off or derived from other keys
  derived_or_zero,  // like `derived`, but 0 means the same as null
  dropout,          // null: no dropout
  act               // the name of an activation from a list
};

// The name of an activation in another program. If an activation has several names, files are written with
// the first name.
struct ActName {
  const char* theirs;
  Act ours;
};
inline constexpr ActName kPlainActs[] = {
    // for MLPs with two matrices
    {"gelu_new", Act::gelu_tanh},
    {"gelu_pytorch_tanh", Act::gelu_tanh},
    {"gelu_python_tanh", Act::gelu_tanh},
    {"gelu_fast", Act::gelu_tanh},
    {"gelu_accurate", Act::gelu_tanh},
    {"gelu", Act::gelu},
    {"gelu_python", Act::gelu},
    {"relu", Act::relu},
    {"relu2", Act::relu2},
};
inline constexpr ActName kGatedActs[] = {{"silu", Act::swiglu},
                                         {"swish", Act::swiglu}};  // for MLPs with three matrices

// A key of config.json and the field that it sets.
struct ConfigKey {
  const char* theirs;
  ConfigField field;
  Means means = Means::value;
  const char* other_name = nullptr;  // takes precedence over `theirs` if both are present
  std::span<const ActName> acts = {};
};

// The keys of GPT-1 and GPT-2 (kGptKeys), and the keys of Llama and similar families (kLlamaKeys).
inline constexpr ConfigKey kGptKeys[] = {
    {"vocab_size", &ModelConfig::vocab_size, Means::size},
    {"n_positions", &ModelConfig::n_ctx, Means::size, "max_position_embeddings"},
    {"n_embd", &ModelConfig::n_embd, Means::size, "hidden_size"},
    {"n_layer", &ModelConfig::n_layer, Means::size, "num_hidden_layers"},
    {"n_head", &ModelConfig::n_head, Means::size, "num_attention_heads"},
    {"layer_norm_epsilon", &ModelConfig::norm_eps},
    {"embd_pdrop", &ModelConfig::embd_dropout, Means::dropout},
    {"attn_pdrop", &ModelConfig::attn_dropout, Means::dropout},
    {"resid_pdrop", &ModelConfig::resid_dropout, Means::dropout},
    {"initializer_range", &ModelConfig::init_std},
    {"tie_word_embeddings", &ModelConfig::tie_embeddings},
};
inline constexpr ConfigKey kLlamaKeys[] = {
    {"vocab_size", &ModelConfig::vocab_size, Means::size},
    {"max_position_embeddings", &ModelConfig::n_ctx, Means::size},
    {"hidden_size", &ModelConfig::n_embd, Means::size},
    {"num_hidden_layers", &ModelConfig::n_layer, Means::size},
    {"num_attention_heads", &ModelConfig::n_head, Means::size},
    {"num_key_value_heads", &ModelConfig::n_kv_head, Means::derived},
    {"intermediate_size", &ModelConfig::d_ff, Means::size},
    {"rms_norm_eps", &ModelConfig::norm_eps},
    {"attention_dropout", &ModelConfig::attn_dropout, Means::dropout},
    {"initializer_range", &ModelConfig::init_std},
    {"tie_word_embeddings", &ModelConfig::tie_embeddings},
};

struct EmptyObject {};
void to_json(nlohmann::json& out, EmptyObject value);
using Literal = std::variant<std::nullptr_t, bool, const char*, std::array<const char*, 1>, EmptyObject>;

// A setting that the decoder does not support and that changes results, except with one of the values in
// `allowed`. The error message for any other value names the first allowed value.
struct FixedKey {
  const char* key;
  std::initializer_list<Literal> allowed;
};
inline constexpr FixedKey kDecoderOnly[] = {{"is_causal", {true, nullptr}},
                                            {"attribute_map", {EmptyObject{}}}};

// Reads a config.json in the format of a transformers family. Each key has the same meaning as in
// transformers 5, and a missing key has the same default. Keys that have no effect in transformers are
// ignored, even if they are gpt.cpp keys. Throws Error for a setting that the decoder does not support; the
// message names the key, the expected value and the found value. The result contains all settings except the
// token ids. docs/config-variants.md compares all keys. Also throws Error if the config is invalid.
ModelConfig read_config_keys(const Family& family, const nlohmann::json& object);

// Converts a config to config.json keys of the family. Returns nothing if the family cannot express the
// config. To check this, the function reads the keys again and compares the result with the config.
std::optional<nlohmann::json> write_config_keys(const Family& family, const ModelConfig& config);

// The following functions read and write settings that consist of several keys.

// Reads the rotary settings like transformers 5. "rope_scaling" takes precedence over "rope_parameters". A
// key inside the object, such as "rope_theta", takes precedence over the same key outside of the object. All
// other fields of the config must already be set. Throws invalid_argument naming the key if the decoder does
// not support the rope type.
void read_rope(const nlohmann::json& object, ModelConfig& config);
void write_rope(const ModelConfig& config, nlohmann::json& object);

// Returns the object with the rotary settings, and the key that contains the object.
std::pair<nlohmann::json, std::string> rope_object(const nlohmann::json& object);

// Returns the number of layers with a sliding window in a list of layer types.
int64_t sliding_layers(const nlohmann::json& layers, const ModelConfig& config);

// Sets the sliding window of a config. Throws invalid_argument if only some of the layers use the window. A
// window that is at least as long as the context is ignored.
void set_window(const char* key, int64_t sliding, int64_t window, ModelConfig& config);

// Throws invalid_argument if the file sets a sliding window but the model does not use sliding windows. In
// transformers, the KV cache would apply this window during generation, but an evaluation of a whole text
// would not, so the results would differ.
void check_no_window(const nlohmann::json& object, const ModelConfig& config);

}  // namespace gpt
