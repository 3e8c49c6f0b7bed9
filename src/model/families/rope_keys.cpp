// Reads and writes the rotary settings in a config.json of transformers.

#include <cmath>

#include "model/families/config_keys.h"
#include "model/json_value.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr double kDefaultTheta = 10000;

// Returns true for values that Python treats as false.
bool is_empty(const json& v) {
  return v.is_null() || v == false || v == 0 || (v.is_string() && v.get_ref<const std::string&>().empty()) ||
         ((v.is_object() || v.is_array()) && v.empty());
}

struct Rope {
  json keys;
  std::string name;  // name of the object that contains the keys

  std::string path(const char* key) const { return name + "." + key; }

  // Reads the value of a key if the key exists, and returns true in that case.
  template <class T>
  bool read(const char* key, T& out) const {
    if (!keys.contains(key)) return false;
    from_json_value(path(key), keys[key], out);
    return true;
  }

  template <class T>
  void need(const char* key, T& out) const {
    if (!read(key, out)) fail_key(name, "expected the key \"{}\" in this object, found none", key);
  }
};

double read_theta(const Rope& rope, const json& object) {
  double theta = kDefaultTheta;
  if (!rope.read("rope_theta", theta) && object.contains("rope_theta"))
    from_json_value("rope_theta", object["rope_theta"], theta);
  return theta;
}

// Throws invalid_argument unless the rotation covers the whole head.
void check_whole_head(const Rope& rope, const json& object, int64_t head_dim) {
  constexpr const char* kKey = "partial_rotary_factor";
  double share = 1;
  const json outside = object.value(kKey, json());
  if (!rope.read(kKey, share) && !outside.is_null()) from_json_value(kKey, outside, share);
  if (std::floor(static_cast<double>(head_dim) * share) == static_cast<double>(head_dim)) return;
  fail_key(kKey, "rotary positions in only a part of each head are not supported, found {}", share);
}

RopeScaling read_scaling(const Rope& rope, const json& object, const ModelConfig& c) {
  std::string type = "default";
  const char* type_key = rope.keys.contains("rope_type") ? "rope_type" : "type";
  rope.read(type_key, type);
  RopeScaling scaling;
  if (type == "default") return scaling;  // all other keys have no effect
  if (type != "linear" && type != "dynamic" && type != "llama3")
    wrong_value(rope.path(type_key), "default, linear, dynamic or llama3", type);
  check_whole_head(rope, object, c.head_dim);
  rope.need("factor", scaling.factor);
  if (type == "dynamic") return {};  // only affects positions beyond the context
  scaling.type = type == "linear" ? RopeScaling::Type::linear : RopeScaling::Type::llama3;
  if (type == "linear") return scaling;
  rope.need("low_freq_factor", scaling.low_freq_factor);
  rope.need("high_freq_factor", scaling.high_freq_factor);
  constexpr const char* kLength = "original_max_position_embeddings";
  scaling.original_n_ctx = c.n_ctx;
  rope.read(kLength, scaling.original_n_ctx);
  if (object.contains(kLength)) from_json_value(kLength, object[kLength], scaling.original_n_ctx);
  return scaling;
}

}  // namespace

std::pair<json, std::string> rope_object(const json& object) {
  const json scaling = object.value("rope_scaling", json());
  const std::string name = is_empty(scaling) ? "rope_parameters" : "rope_scaling";
  json rope = is_empty(scaling) ? object.value("rope_parameters", json()) : scaling;
  if (rope.is_null()) rope = json::object();
  if (!rope.is_object()) wrong_value(name, "an object or null", rope);
  return {rope, name};
}

void read_rope(const json& object, ModelConfig& c) {
  const auto [keys, name] = rope_object(object);
  const Rope rope{keys, name};
  c.rope_theta = read_theta(rope, object);
  c.rope_scaling = read_scaling(rope, object, c);
  try {
    complete(c);
  } catch (const Error& error) {  // the message names rope_scaling
    std::string message = error.what();
    if (const size_t at = message.find("rope_scaling"); at != std::string::npos)
      message.replace(at, std::string_view("rope_scaling").size(), rope.name);
    fail_usage("{}", message);
  }
}

void write_rope(const ModelConfig& c, json& object) {
  json rope = to_json_value(c.rope_scaling);
  if (rope.is_null()) rope = {{"rope_type", "default"}};
  rope["rope_theta"] = c.rope_theta;
  object["rope_parameters"] = std::move(rope);
}

}  // namespace gpt
