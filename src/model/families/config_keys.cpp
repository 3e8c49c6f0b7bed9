#include "model/families/config_keys.h"

#include <algorithm>

#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {

void to_json(nlohmann::json& out, EmptyObject) {
  out = nlohmann::json::object();
}

namespace {

using nlohmann::json;

constexpr FixedKey kAlways[] = {
    {"quantization_config", {nullptr}},
    {"per_layer_config", {nullptr, EmptyObject{}}},
    {"transformers_weights", {nullptr, "model.safetensors"}},
    {"fusion_config", {nullptr}},
    {"configuration_files", {std::array{"config.json"}}},
};

json json_of(const Literal& literal) {
  return std::visit([](const auto& value) { return json(value); }, literal);
}

json our_act(const ConfigKey& key, const json& value) {
  std::string expected;
  for (const ActName& name : key.acts) {
    if (value == name.theirs) return to_json_value(name.ours);
    expected += (expected.empty() ? "" : ", ") + std::string(name.theirs);
  }
  wrong_value(key.theirs, (key.acts.size() > 1 ? "one of " : "") + expected, value);
}

json our_size(const ConfigKey& key, const json& value) {
  if (value.is_number() && !(value.get<double>() > 0)) wrong_value(key.theirs, "a number above 0", value);
  return value;
}

// Converts the value of a key to the value of its field. Returns 0 if the field is derived from other fields.
json our_value(const ConfigKey& key, const json& value) {
  switch (key.means) {
    case Means::value:
      return value;
    case Means::size:
      return our_size(key, value);
    case Means::derived:
      return value.is_null() ? json(0) : our_size(key, value);
    case Means::derived_or_zero:
      return value.is_null() || value == 0 ? json(0) : our_size(key, value);
    case Means::dropout:
      if (value.is_number() && value.get<double>() < 0) wrong_value(key.theirs, "0 to 1", value);
      return value.is_null() ? json(0) : value;
    case Means::act:
      return our_act(key, value);
  }
  return value;
}

void read_key(ConfigKey key, const json& object, ModelConfig& c) {
  if (key.other_name != nullptr && object.contains(key.other_name)) key.theirs = key.other_name;
  if (!object.contains(key.theirs)) return;
  const json ours = our_value(key, object[key.theirs]);
  std::visit([&](auto field) { from_json_value(key.theirs, ours, c.*field); }, key.field);
}

void check_fixed(std::span<const FixedKey> settings, const json& object) {
  for (const FixedKey& fixed : settings) {
    if (!object.contains(fixed.key)) continue;
    const json& found = object[fixed.key];
    if (std::ranges::any_of(fixed.allowed, [&](const Literal& l) { return json_of(l) == found; })) continue;
    wrong_value(fixed.key, json_of(*fixed.allowed.begin()).dump() + " (other values are not supported)",
                found);
  }
}

bool in_word(char c) {
  return c == '_' || (std::isalnum(static_cast<unsigned char>(c)) != 0);
}

// Replaces the gpt.cpp key names in an error message of `complete` by the key names of the file.
std::string in_their_words(const Family& family, const json& object, const std::string& message) {
  std::string out;
  for (size_t at = 0; at < message.size();) {
    size_t end = at;
    while (end < message.size() && in_word(message[end]))
      ++end;
    std::string word = message.substr(at, std::max<size_t>(1, end - at));
    for (const ConfigKey& key : all_keys(family)) {
      if (word != field_name(key.field)) continue;
      word = key.other_name != nullptr && object.contains(key.other_name) ? key.other_name : key.theirs;
      break;
    }
    out += word;
    at = std::max(end, at + 1);
  }
  return out;
}

// Converts the value of a field to the value of its key. Returns nothing if the value is an activation that
// has no name in the list of the key.
std::optional<json> their_value(const ConfigKey& key, const ModelConfig& c) {
  const json value = std::visit([&](auto field) { return to_json_value(c.*field); }, key.field);
  if (key.means == Means::derived || key.means == Means::derived_or_zero)
    return value == 0 ? json(nullptr) : value;
  if (key.means != Means::act) return value;
  for (const ActName& name : key.acts) {
    if (value == to_json_value(name.ours)) return name.theirs;
  }
  return {};
}

// Returns the model keys that affect the results of a model.
json result_keys(const ModelConfig& c) {
  json keys = model_keys_json(c);
  for (const char* key : {"init", "init_std", "residual_init_scale", "dropout", "embd_dropout",
                          "attn_dropout", "resid_dropout"})
    keys.erase(key);
  for (const char* key : {"rope_theta", "rope_sign", "rope_layout", "rope_scaling", "rope_dtype"}) {
    if (c.position != Position::rope) keys.erase(key);
  }
  return keys;
}

bool reads_back(const Family& family, const json& object, const ModelConfig& c) {
  try {
    ModelConfig back = read_config_keys(family, object);
    // A window that is at least as long as the context has no effect, and some families do not write such a
    // window.
    if (object.contains("sliding_window") && c.sliding_window >= c.n_ctx)
      back.sliding_window = c.sliding_window;
    return result_keys(back) == result_keys(c);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

const char* field_name(const ConfigField& field) {
  static const ModelConfig config;
  const char* found = "";
  visit_model_keys(config, [&](const Key& key, const auto& value) {
    const auto is_it = [&](auto member) { return static_cast<const void*>(&(config.*member)) == &value; };
    if (std::visit(is_it, field)) found = key.name;
  });
  return found;
}

ModelConfig read_config_keys(const Family& family, const json& object) {
  check_fixed(kAlways, object);
  check_fixed(family.fixed, object);
  ModelConfig c = family_config(family);
  set_shape(c, family.missing);
  c.embd_dropout = c.attn_dropout = c.resid_dropout = family.missing_dropout;
  for (const ConfigKey& key : all_keys(family))
    read_key(key, object, c);
  try {
    complete(c);
  } catch (const Error& error) {
    fail_because(error, "{}", in_their_words(family, object, error.what()));
  }
  if (family.read != nullptr) family.read(object, c);
  if (family.no_window) check_no_window(object, c);
  const bool is_null = object.contains("is_causal") && object["is_causal"].is_null();
  if (c.sliding_window > 0 && is_null) wrong_value("is_causal", "true", object["is_causal"]);
  return c;
}

std::optional<json> write_config_keys(const Family& family, const ModelConfig& c) {
  if (family.keys.empty() || (family.holds != nullptr && !family.holds(c))) return {};
  json object = json::object();
  for (const ConfigKey& key : all_keys(family)) {
    const std::optional<json> value = their_value(key, c);
    if (!value) return {};
    object[key.theirs] = *value;
  }
  if (family.write != nullptr) family.write(c, object);
  return reads_back(family, object, c) ? std::optional(object) : std::nullopt;
}

int64_t sliding_layers(const json& layers, const ModelConfig& c) {
  const auto count = [&](const char* kind) { return std::ranges::count(layers, json(kind)); };
  const int64_t sliding = count("sliding_attention");
  const int64_t full = count("full_attention") + count("attention");
  if (!layers.is_array() || sliding + full != c.n_layer || std::ssize(layers) != c.n_layer) {
    wrong_value("layer_types",
                "full_attention or sliding_attention for each of " + std::to_string(c.n_layer) + " layers",
                layers);
  }
  return sliding;
}

void set_window(const char* key, int64_t sliding, int64_t window, ModelConfig& c) {
  c.sliding_window = 0;
  if (sliding == 0 || window >= c.n_ctx) return;
  if (sliding != c.n_layer) {
    fail_key(key,
             "a sliding window in {} of {} layers is not supported, only in all layers or in "
             "none",
             sliding, c.n_layer);
  }
  c.sliding_window = window;
}

void check_no_window(const json& object, const ModelConfig& c) {
  const auto has_effect = [&](const json& v) { return !v.is_number_integer() || v.get<int64_t>() < c.n_ctx; };
  const json window = object.value("sliding_window", json()), layers = object.value("layer_types", json());
  if (layers.is_null()) {
    const char* key = window.is_null() ? "attention_chunk_size" : "sliding_window";
    const json found = object.value(key, json());
    if (!found.is_null() && has_effect(found)) {
      wrong_value(key, "null or at least the context length " + std::to_string(c.n_ctx), found);
    }
    return;
  }
  const auto known = [&](const json& layer) {
    return layer == "full_attention" || layer == "attention" ||
           (layer == "sliding_attention" && !window.is_null() && !has_effect(window));
  };
  if (!layers.is_array() || std::ssize(layers) != c.n_layer || !std::ranges::all_of(layers, known))
    wrong_value("layer_types", "full_attention for each of " + std::to_string(c.n_layer) + " layers", layers);
}

}  // namespace gpt
