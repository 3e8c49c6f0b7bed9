#include "model/foreign_config.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "io/printable.h"
#include "model/foreign_rope.h"
#include "model/json_value.h"
#include "model/presets.h"

namespace gpt {
namespace {

using nlohmann::json;

// What a value of a key is.
enum class Means : uint8_t {
  value,            // the switch's own
  size,             // a number above 0
  derived,          // the same; null: found from other keys
  derived_or_zero,  // the same, and 0 is like null
  dropout,          // null: none
  softcap,          // a number above 0; null: none
  plain_act,        // of two matrices
  gated_act,        // of three
  gpt1_act          // openai-gpt has a table of its own
};

struct Key {
  const char* theirs;
  const char* ours;
  Means means;
  const char* missing;  // what transformers takes where the key is missing; null: found from others
  const char* other_name = nullptr;  // goes before `theirs` where both are there
};

// Settings that change the result and that the decoder does not have: the values that change nothing.
struct Fixed {
  const char* key;
  const char* allowed;  // a list
};

struct Family {
  const char* name;
  std::span<const Key> keys;
  std::span<const Fixed> fixed;
  const char* bos;  // where the key is missing
  const char* eos;
};

constexpr Key kGpt2[] = {
    {"vocab_size", "vocab_size", Means::size, "50257"},
    {"n_positions", "n_ctx", Means::size, "1024", "max_position_embeddings"},
    {"n_embd", "n_embd", Means::size, "768", "hidden_size"},
    {"n_layer", "n_layer", Means::size, "12", "num_hidden_layers"},
    {"n_head", "n_head", Means::size, "12", "num_attention_heads"},
    {"n_inner", "d_ff", Means::derived, nullptr},
    {"activation_function", "act", Means::plain_act, R"("gelu_new")"},
    {"layer_norm_epsilon", "norm_eps", Means::value, "1e-5"},
    {"embd_pdrop", "embd_dropout", Means::dropout, "0.1"},
    {"attn_pdrop", "attn_dropout", Means::dropout, "0.1"},
    {"resid_pdrop", "resid_dropout", Means::dropout, "0.1"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "true"},
};

constexpr Key kGpt1[] = {
    {"vocab_size", "vocab_size", Means::size, "40478"},
    {"n_positions", "n_ctx", Means::size, "512", "max_position_embeddings"},
    {"n_embd", "n_embd", Means::size, "768", "hidden_size"},
    {"n_layer", "n_layer", Means::size, "12", "num_hidden_layers"},
    {"n_head", "n_head", Means::size, "12", "num_attention_heads"},
    {"afn", "act", Means::gpt1_act, R"("gelu")"},
    {"layer_norm_epsilon", "norm_eps", Means::value, "1e-5"},
    {"embd_pdrop", "embd_dropout", Means::dropout, "0.1"},
    {"attn_pdrop", "attn_dropout", Means::dropout, "0.1"},
    {"resid_pdrop", "resid_dropout", Means::dropout, "0.1"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "true"},
};

constexpr Key kLlama[] = {
    {"vocab_size", "vocab_size", Means::size, "32000"},
    {"max_position_embeddings", "n_ctx", Means::size, "2048"},
    {"hidden_size", "n_embd", Means::size, "4096"},
    {"num_hidden_layers", "n_layer", Means::size, "32"},
    {"num_attention_heads", "n_head", Means::size, "32"},
    {"num_key_value_heads", "n_kv_head", Means::derived, nullptr},
    {"head_dim", "head_dim", Means::derived, nullptr},
    {"intermediate_size", "d_ff", Means::size, "11008"},
    {"hidden_act", "act", Means::gated_act, R"("silu")"},
    {"rms_norm_eps", "norm_eps", Means::value, "1e-6"},
    {"attention_bias", "qkv_bias", Means::value, "false"},
    {"attention_bias", "out_bias", Means::value, "false"},
    {"mlp_bias", "mlp_bias", Means::value, "false"},
    {"attention_dropout", "attn_dropout", Means::dropout, "0"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "false"},
};

constexpr Key kQwen2[] = {
    {"vocab_size", "vocab_size", Means::size, "151936"},
    {"max_position_embeddings", "n_ctx", Means::size, "32768"},
    {"hidden_size", "n_embd", Means::size, "4096"},
    {"num_hidden_layers", "n_layer", Means::size, "32"},
    {"num_attention_heads", "n_head", Means::size, "32"},
    {"num_key_value_heads", "n_kv_head", Means::derived, "32"},
    {"head_dim", "head_dim", Means::size, nullptr},
    {"intermediate_size", "d_ff", Means::size, "22016"},
    {"hidden_act", "act", Means::gated_act, R"("silu")"},
    {"rms_norm_eps", "norm_eps", Means::value, "1e-6"},
    {"attention_dropout", "attn_dropout", Means::dropout, "0"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "false"},
};

constexpr Key kMistral[] = {
    {"vocab_size", "vocab_size", Means::size, "32000"},
    {"max_position_embeddings", "n_ctx", Means::size, "131072"},
    {"hidden_size", "n_embd", Means::size, "4096"},
    {"num_hidden_layers", "n_layer", Means::size, "32"},
    {"num_attention_heads", "n_head", Means::size, "32"},
    {"num_key_value_heads", "n_kv_head", Means::derived, "8"},
    {"head_dim", "head_dim", Means::derived_or_zero, nullptr},
    {"intermediate_size", "d_ff", Means::size, "14336"},
    {"hidden_act", "act", Means::gated_act, R"("silu")"},
    {"rms_norm_eps", "norm_eps", Means::value, "1e-6"},
    {"sliding_window", "sliding_window", Means::derived, "4096"},
    {"attention_dropout", "attn_dropout", Means::dropout, "0"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "false"},
};

constexpr Key kNanochat[] = {
    {"vocab_size", "vocab_size", Means::size, "50304"},
    {"max_position_embeddings", "n_ctx", Means::size, "2048"},
    {"hidden_size", "n_embd", Means::size, "768"},
    {"num_hidden_layers", "n_layer", Means::size, "12"},
    {"num_attention_heads", "n_head", Means::size, "6"},
    {"num_key_value_heads", "n_kv_head", Means::derived, nullptr},
    {"head_dim", "head_dim", Means::size, nullptr},
    {"intermediate_size", "d_ff", Means::size, "8192"},
    {"hidden_act", "act", Means::plain_act, R"("relu2")"},
    {"rms_norm_eps", "norm_eps", Means::value, "1e-6"},
    {"attention_bias", "qkv_bias", Means::value, "false"},
    {"attention_bias", "out_bias", Means::value, "false"},
    {"final_logit_softcapping", "logit_softcap", Means::softcap, "15"},
    {"attention_dropout", "attn_dropout", Means::dropout, "0"},
    {"initializer_range", "init_std", Means::value, "0.02"},
    {"tie_word_embeddings", "tie_embeddings", Means::value, "false"},
};

constexpr Fixed kAlways[] = {
    {"quantization_config", "[null]"},
    {"per_layer_config", "[null, {}]"},
    {"transformers_weights", R"([null, "model.safetensors"])"},
    {"fusion_config", "[null]"},
    {"configuration_files", R"([["config.json"]])"},
};
constexpr Fixed kDecoder[] = {{"is_causal", "[true, null]"}, {"attribute_map", "[{}]"}};
constexpr Fixed kGpt2Fixed[] = {{"is_causal", "[true, null]"},
                                {"attribute_map", "[{}]"},
                                {"scale_attn_weights", "[true]"},
                                {"scale_attn_by_inverse_layer_idx", "[false]"}};

constexpr Family kFamilies[] = {
    {"gpt2", kGpt2, kGpt2Fixed, "50256", "50256"}, {"openai-gpt", kGpt1, {}, "null", "null"},
    {"llama", kLlama, kDecoder, "1", "2"},         {"qwen2", kQwen2, kDecoder, "null", "null"},
    {"mistral", kMistral, kDecoder, "1", "2"},     {"nanochat", kNanochat, kDecoder, "0", "1"},
};

struct ActName {
  const char* theirs;
  Act ours;
};
constexpr ActName kPlainActs[] = {
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
constexpr ActName kGatedActs[] = {{"silu", Act::swiglu}, {"swish", Act::swiglu}};
constexpr ActName kGpt1Acts[] = {{"gelu", Act::gelu_tanh}, {"relu", Act::relu}};

const Family* find_family(const std::string& model_type) {
  const auto at = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                               [&](const Family& f) { return model_type == f.name; });
  return at == std::end(kFamilies) ? nullptr : at;
}

json our_act(const Key& key, std::span<const ActName> names, const json& value) {
  std::string expected;
  for (const ActName& name : names) {
    if (value == name.theirs) return to_json_value(name.ours);
    expected += (expected.empty() ? "" : ", ") + std::string(name.theirs);
  }
  wrong_value(key.theirs, (names.size() > 1 ? "one of " : "") + expected, value);
}

json our_size(const Key& key, const json& value) {
  if (value.is_number() && !(value.get<double>() > 0)) wrong_value(key.theirs, "a number above 0", value);
  return value;
}

// A value of theirs as the switch has it; null: the switch keeps what it has, to be found from others.
json our_value(const Key& key, const json& value) {
  switch (key.means) {
    case Means::value:
      return value;
    case Means::size:
      return our_size(key, value);
    case Means::derived:
      return value.is_null() ? json(0) : our_size(key, value);
    case Means::derived_or_zero:
      return value.is_null() || value == 0 ? json(0) : our_size(key, value);
    case Means::softcap:
      return value.is_null() ? json(0) : our_size(key, value);
    case Means::dropout:
      if (value.is_number() && value.get<double>() < 0) wrong_value(key.theirs, "0 to 1", value);
      return value.is_null() ? json(0) : value;
    case Means::plain_act:
      return our_act(key, kPlainActs, value);
    case Means::gated_act:
      return our_act(key, kGatedActs, value);
    case Means::gpt1_act:
      return our_act(key, kGpt1Acts, value);
  }
  return value;
}

void read_key(const Key& row, const json& object, ModelConfig& c) {
  Key key = row;
  if (key.other_name != nullptr && object.contains(key.other_name)) key.theirs = key.other_name;
  const bool given = object.contains(key.theirs);
  if (!given && key.missing == nullptr) return;
  const json value = our_value(key, given ? object[key.theirs] : json::parse(key.missing));
  visit_model_keys(c, [&](const char* name, auto& field, const char*, const char*) {
    if (std::string_view(name) == key.ours) from_json_value(key.theirs, value, field);
  });
}

void check_fixed(std::span<const Fixed> settings, const json& object) {
  for (const Fixed& fixed : settings) {
    if (!object.contains(fixed.key)) continue;
    const json allowed = json::parse(fixed.allowed);
    const json& found = object[fixed.key];
    if (std::find(allowed.begin(), allowed.end(), found) != allowed.end()) continue;
    wrong_value(fixed.key, allowed[0].dump() + " (other values are not supported)", found);
  }
}

// How many layers a list of their kinds lets slide.
int64_t sliding_layers(const json& layers, const ModelConfig& c) {
  const auto count = [&](const char* kind) { return std::count(layers.begin(), layers.end(), json(kind)); };
  const int64_t sliding = count("sliding_attention");
  const int64_t full = count("full_attention") + count("attention");
  if (!layers.is_array() || sliding + full != c.n_layer || std::ssize(layers) != c.n_layer) {
    wrong_value("layer_types",
                "full_attention or sliding_attention for each of " + std::to_string(c.n_layer) + " layers",
                layers);
  }
  return sliding;
}

// Here all layers slide or none does; a window that is no shorter than the context is none.
void set_window(const char* key, int64_t sliding, int64_t window, ModelConfig& c) {
  c.sliding_window = 0;
  if (sliding == 0 || window >= c.n_ctx) return;
  if (sliding != c.n_layer) {
    fail_usage("config key \"{}\": a sliding window in {} of {} layers is not supported, only in all or none",
               key, sliding, c.n_layer);
  }
  c.sliding_window = window;
}

// Qwen2 looks through its window in the layers from max_window_layers on, or as a list says.
void read_qwen2_window(const json& object, ModelConfig& c) {
  bool use = false;
  int64_t window = 4096, first = 28;
  if (object.contains("use_sliding_window"))
    from_json_value("use_sliding_window", object["use_sliding_window"], use);
  const json given = object.value("sliding_window", json(window));
  if (given.is_null()) use = false;
  if (use) from_json_value("sliding_window", given, window);
  if (object.contains("max_window_layers"))
    from_json_value("max_window_layers", object["max_window_layers"], first);
  const json layers = object.value("layer_types", json());
  const int64_t rest = use ? c.n_layer - std::clamp<int64_t>(first, 0, c.n_layer) : 0;
  const int64_t sliding = layers.is_null() ? rest : sliding_layers(layers, c);
  if (sliding > 0 && (!use || window < 1)) {
    wrong_value("sliding_window",
                "a number above 0 and use_sliding_window = true, as max_window_layers or layer_types let "
                "layers slide",
                given);
  }
  set_window(layers.is_null() ? "max_window_layers" : "layer_types", sliding, window, c);
}

// Mistral has its window in all layers; with layer_types, even null, transformers takes it for a Ministral.
void read_ministral_window(const json& object, ModelConfig& c) {
  const json& layers = object["layer_types"];
  const int64_t sliding = layers.is_null() ? c.n_layer : sliding_layers(layers, c);
  if (c.sliding_window == 0)
    wrong_value("sliding_window", "a number above 0, as there are layer_types", nullptr);
  set_window("layer_types", sliding, c.sliding_window, c);
}

// These models have no window, but transformers' cache takes one from the file, and then continues a text
// otherwise than it reads it at once.
void check_no_window(const json& object, const ModelConfig& c) {
  const auto has_effect = [&](const json& v) { return !v.is_number_integer() || v.get<int64_t>() < c.n_ctx; };
  const json window = object.value("sliding_window", json()), layers = object.value("layer_types", json());
  if (layers.is_null()) {
    const char* key = window.is_null() ? "attention_chunk_size" : "sliding_window";
    const json found = object.value(key, json());
    if (!found.is_null() && has_effect(found)) {
      wrong_value(key, "null, or at least the context of " + std::to_string(c.n_ctx), found);
    }
    return;
  }
  const auto known = [&](const json& layer) {
    return layer == "full_attention" || layer == "attention" ||
           (layer == "sliding_attention" && !window.is_null() && !has_effect(window));
  };
  if (!layers.is_array() || std::ssize(layers) != c.n_layer ||
      !std::all_of(layers.begin(), layers.end(), known))
    wrong_value("layer_types", "full_attention for each of " + std::to_string(c.n_layer) + " layers", layers);
}

void read_window(const Family& family, const json& object, ModelConfig& c) {
  const std::string_view name = family.name;
  if (name == "qwen2") read_qwen2_window(object, c);
  if (name == "gpt2" || name == "llama" || name == "nanochat") check_no_window(object, c);
  if (name == "mistral" && object.contains("layer_types")) {
    read_ministral_window(object, c);
  } else if (name == "mistral" && c.sliding_window == 0) {
    check_no_window(object, c);
  }
  const bool is_null = object.contains("is_causal") && object["is_causal"].is_null();
  if (c.sliding_window > 0 && is_null) wrong_value("is_causal", "true", object["is_causal"]);
}

bool in_word(char c) {
  return c == '_' || (std::isalnum(static_cast<unsigned char>(c)) != 0);
}

// A message of `complete` with the names that the file has.
std::string in_their_words(const Family& family, const json& object, const std::string& message) {
  std::string out;
  for (size_t at = 0; at < message.size();) {
    size_t end = at;
    while (end < message.size() && in_word(message[end]))
      ++end;
    std::string word = message.substr(at, std::max<size_t>(1, end - at));
    for (const Key& key : family.keys) {
      if (word != key.ours) continue;
      word = key.other_name != nullptr && object.contains(key.other_name) ? key.other_name : key.theirs;
      break;
    }
    out += word;
    at = std::max(end, at + 1);
  }
  return out;
}

}  // namespace

bool is_foreign_family(const std::string& model_type) {
  return find_family(model_type) != nullptr;
}

ModelConfig foreign_config(const json& object) {
  const Family& family = *find_family(object["model_type"]);
  check_fixed(kAlways, object);
  check_fixed(family.fixed, object);
  ModelConfig c;
  read_model_keys(json::parse(*family_keys(family.name)), c);
  c.sliding_window = 0;
  for (const Key& key : family.keys)
    read_key(key, object, c);
  try {
    complete(c);
  } catch (const Error& error) {
    fail("{}", in_their_words(family, object, error.what()));
  }
  if (c.position == Position::rope) read_foreign_rope(object, c);
  read_window(family, object, c);
  return c;
}

json foreign_token_ids(const json& object) {
  const Family& family = *find_family(object["model_type"]);
  return {{"bos_token_id", object.value("bos_token_id", json::parse(family.bos))},
          {"eos_token_id", object.value("eos_token_id", json::parse(family.eos))}};
}

}  // namespace gpt
