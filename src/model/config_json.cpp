
#include "model/config_alias.h"
#include "model/json_value.h"

namespace gpt {

void from_json_value(const std::string& key, const nlohmann::json& v, RopeScaling& out) {
  out = {};
  if (v.is_null()) return;
  if (!v.is_object()) wrong_value(key, "an object or null", v);
  std::string type = "default";
  for (const char* name : {"type", "rope_type"}) {
    if (v.contains(name)) from_json_value(key + "." + name, v[name], type);
  }
  if (type == "default") return;
  if (type != "linear" && type != "llama3")
    wrong_value(key + ".rope_type", "default, linear or llama3", type);
  out.type = type == "linear" ? RopeScaling::Type::linear : RopeScaling::Type::llama3;
  const auto read = [&](const char* name, auto& field) {
    if (v.contains(name)) from_json_value(key + "." + name, v[name], field);
  };
  read("factor", out.factor);
  read("low_freq_factor", out.low_freq_factor);
  read("high_freq_factor", out.high_freq_factor);
  read("original_max_position_embeddings", out.original_n_ctx);
}

nlohmann::json to_json_value(const RopeScaling& s) {
  if (s.type == RopeScaling::Type::none) return nullptr;
  if (s.type == RopeScaling::Type::linear) return {{"rope_type", "linear"}, {"factor", s.factor}};
  return {{"rope_type", "llama3"},
          {"factor", s.factor},
          {"low_freq_factor", s.low_freq_factor},
          {"high_freq_factor", s.high_freq_factor},
          {"original_max_position_embeddings", s.original_n_ctx}};
}

std::vector<std::string> read_model_keys(const nlohmann::json& object, ModelConfig& config) {
  const nlohmann::json own = translate_aliases(object);
  std::vector<std::string> unknown;
  for (const auto& item : own.items()) {  // clang 14 lets no lambda capture structured bindings
    const std::string& key = item.key();
    const auto& value = item.value();
    bool found = false;
    visit_model_keys(config, [&](const char* name, auto& field, const char*, const char*) {
      if (key != name) return;
      from_json_value(key, value, field);
      found = true;
    });
    if (!found) unknown.push_back(key);
  }
  return unknown;
}

nlohmann::json model_keys_json(const ModelConfig& config) {
  nlohmann::json object = nlohmann::json::object();
  visit_model_keys(config, [&](const char* name, const auto& field, const char*, const char*) {
    object[name] = to_json_value(field);
  });
  return object;
}

std::vector<std::string> model_key_names() {
  std::vector<std::string> names;
  ModelConfig config;
  visit_model_keys(config,
                   [&](const char* name, auto&, const char*, const char*) { names.emplace_back(name); });
  return names;
}

}  // namespace gpt
