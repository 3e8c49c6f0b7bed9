// Rotary positions in a config.json of transformers.

#include <cmath>
#include <tuple>

#include "model/families/config_keys.h"
#include "model/json_value.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr double kDefaultTheta = 10000;

// What Python takes for false.
bool is_empty(const json& v) {
  return v.is_null() || v == false || v == 0 || v == "" || ((v.is_object() || v.is_array()) && v.empty());
}

class Rope {
 public:
  explicit Rope(const json& object) : config_(object) { std::tie(rope_, name_) = rope_object(object); }

  bool has(const char* key) const { return rope_.contains(key); }
  const json& operator[](const char* key) const { return rope_[key]; }
  std::string path(const char* key) const { return name_ + "." + key; }
  const std::string& name() const { return name_; }

  std::string type() const {
    std::string type = "default";
    for (const char* key : {"rope_type", "type"}) {
      if (!has(key)) continue;
      from_json_value(path(key), rope_[key], type);
      break;
    }
    return type;
  }

  double theta() const {
    double theta = kDefaultTheta;
    if (has("rope_theta")) {
      from_json_value(path("rope_theta"), rope_["rope_theta"], theta);
    } else if (config_.contains("rope_theta")) {
      from_json_value("rope_theta", config_["rope_theta"], theta);
    }
    return theta;
  }

  template <class T>
  void need(const char* key, T& out) const {
    if (!has(key)) fail_usage("config key \"{}\": expected \"{}\" in it, found none", name_, key);
    from_json_value(path(key), rope_[key], out);
  }

  // All of the head has to turn.
  void check_whole_head(int64_t head_dim) const {
    constexpr const char* kKey = "partial_rotary_factor";
    const json outside = config_.value(kKey, json());
    if (!has(kKey) && outside.is_null()) return;
    double share = 1;
    from_json_value(has(kKey) ? path(kKey) : kKey, has(kKey) ? rope_[kKey] : outside, share);
    if (std::floor(static_cast<double>(head_dim) * share) == static_cast<double>(head_dim)) return;
    fail_usage("config key \"{}\": rotary positions in a part of the head are not supported, found {}", kKey,
               share);
  }

 private:
  const json& config_;
  json rope_;
  std::string name_;
};

RopeScaling read_scaling(const Rope& rope, const json& object, const ModelConfig& c) {
  const std::string type = rope.type();
  RopeScaling scaling;
  if (type == "default") return scaling;  // and whatever else is there means nothing
  if (type != "linear" && type != "dynamic" && type != "llama3") {
    wrong_value(rope.path(rope.has("rope_type") ? "rope_type" : "type"), "default, linear, dynamic or llama3",
                type);
  }
  rope.check_whole_head(c.head_dim);
  rope.need("factor", scaling.factor);
  if (type == "dynamic") return {};  // it begins beyond max_position_embeddings, where our context ends
  scaling.type = type == "linear" ? RopeScaling::Type::linear : RopeScaling::Type::llama3;
  if (type == "linear") return scaling;
  rope.need("low_freq_factor", scaling.low_freq_factor);
  rope.need("high_freq_factor", scaling.high_freq_factor);
  constexpr const char* kLength = "original_max_position_embeddings";
  scaling.original_n_ctx = c.n_ctx;
  if (rope.has(kLength)) from_json_value(rope.path(kLength), rope[kLength], scaling.original_n_ctx);
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
  const Rope rope(object);
  c.rope_theta = rope.theta();
  c.rope_scaling = read_scaling(rope, object, c);
  try {
    complete(c);
  } catch (const Error& error) {  // it speaks of rope_scaling
    std::string message = error.what();
    if (const size_t at = message.find("rope_scaling"); at != std::string::npos)
      message.replace(at, std::string_view("rope_scaling").size(), rope.name());
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
