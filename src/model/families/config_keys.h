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
// Its name in our files.
const char* field_name(const ConfigField& field);

// How a value of a key is converted.
enum class Means : uint8_t {
  value,            // the field's own values
  size,             // a number above 0
  derived,          // the same; null: none, or found from other keys
  derived_or_zero,  // the same, and 0 is like null
  dropout,          // null: none
  act               // one of a list
};

// A name of an activation; of several for one the first is written.
struct ActName {
  const char* theirs;
  Act ours;
};
inline constexpr ActName kPlainActs[] = {
    // of an MLP of two matrices
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
inline constexpr ActName kGatedActs[] = {{"silu", Act::swiglu}, {"swish", Act::swiglu}};  // of three

// A key of config.json and the field that it sets.
struct ConfigKey {
  const char* theirs;
  ConfigField field;
  Means means = Means::value;
  const char* other_name = nullptr;  // goes before `theirs` where both are there
  std::span<const ActName> acts = {};
};

// Keys that GPT-1 and GPT-2 have, and those of Llama and its relatives.
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

// A setting that changes the result and that the decoder does not have: the values that change nothing. The
// first one is what the error expects.
struct FixedKey {
  const char* key;
  std::initializer_list<Literal> allowed;
};
inline constexpr FixedKey kDecoderOnly[] = {{"is_causal", {true, nullptr}},
                                            {"attribute_map", {EmptyObject{}}}};

// Reads a config.json of such a family. Each key means what transformers 5 makes of it, missing keys
// included; keys that have no effect there, ours among them, have none here; a setting that the decoder lacks
// is an error that names the key, what is expected and what was found. The result is complete, but for the
// token ids. docs/config-variants.md has every key compared. Throws Error.
ModelConfig read_config_keys(const Family& family, const nlohmann::json& object);

// The reverse; nothing where the family cannot express the config, that is where what is written would not
// read back as the same model.
std::optional<nlohmann::json> write_config_keys(const Family& family, const ModelConfig& config);

// For the families' own reading and writing of what is more than a value.

// Reads the rotary positions like transformers 5: "rope_scaling" takes precedence over "rope_parameters", and
// keys inside the object, such as "rope_theta", over the same keys outside. The config is complete otherwise.
// Throws invalid_argument that names the key for kinds that the decoder lacks.
void read_rope(const nlohmann::json& object, ModelConfig& config);
void write_rope(const ModelConfig& config, nlohmann::json& object);

// The object of rotary settings and the key that it was found under.
std::pair<nlohmann::json, std::string> rope_object(const nlohmann::json& object);

// How many layers a list of their kinds lets slide.
int64_t sliding_layers(const nlohmann::json& layers, const ModelConfig& config);

// Here all layers slide or none does; a window that is no shorter than the context is none.
void set_window(const char* key, int64_t sliding, int64_t window, ModelConfig& config);

// These models have no window, but transformers' cache takes one from the file, and then continues a text
// otherwise than it reads it at once.
void check_no_window(const nlohmann::json& object, const ModelConfig& config);

}  // namespace gpt
