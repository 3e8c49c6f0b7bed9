#include "model/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "model/config_alias.h"
#include "model/families/family.h"
#include "model/json_value.h"
#include "model/model_files.h"

namespace gpt {
namespace {

// The fields of a LayerConfig have no keys. Errors name a field as layers[i].NAME.
template <class T>
void check_range(const char* name, T value, T low, T high) {
  if (!(value >= low && value <= high)) fail_key(name, "expected {} to {}, found {}", low, high, value);
}

void complete_dropout(ModelConfig& c) {
  for (const auto& [key, p] : {std::pair{"dropout", c.dropout},
                               {"embd_dropout", c.embd_dropout},
                               {"attn_dropout", c.attn_dropout},
                               {"resid_dropout", c.resid_dropout}}) {
    if (!(p < 1)) fail_key(key, "expected at least 0 and less than 1, found {}", p);
  }
  if (c.dropout < 0 && c.embd_dropout < 0 && c.attn_dropout < 0 && c.resid_dropout < 0) c.dropout = 0;
  for (double* p : {&c.embd_dropout, &c.attn_dropout, &c.resid_dropout}) {
    if (*p < 0) *p = std::max(c.dropout, 0.0);
  }
  if (c.dropout < 0) c.dropout = std::max({c.embd_dropout, c.attn_dropout, c.resid_dropout});
}

void complete_heads(ModelConfig& c) {
  if (c.n_kv_head == 0) c.n_kv_head = c.n_head;
  if (c.n_kv_head < 1 || c.n_kv_head > c.n_head || c.n_head % c.n_kv_head != 0) {
    fail_key("n_kv_head", "expected a divisor of n_head = {}, found {}", c.n_head, c.n_kv_head);
  }
  if (c.head_dim == 0) {
    if (c.n_embd % c.n_head != 0) {
      fail_key("n_head",
               "n_embd = {} is not divisible by n_head = {}; change one of them or set "
               "head_dim",
               c.n_embd, c.n_head);
    }
    c.head_dim = c.n_embd / c.n_head;
  }
  check_range<int64_t>("head_dim", c.head_dim, 1, 4096);
  if (c.position == Position::rope && c.head_dim % 2 != 0) {
    fail_key("head_dim", "rotary positions require an even number, found {} (n_embd {} / n_head {})",
             c.head_dim, c.n_embd, c.n_head);
  }
}

void check_rope(const RopeConfig& c) {
  check_range("rope_theta", c.theta, 1e-3, 1e12);
  if (c.sign != 1 && c.sign != -1)
    fail_key("rope_sign", "expected 1 (Llama) or -1 (nanochat), found {}", c.sign);
  const RopeScaling& s = c.scaling;
  if (s.type == RopeScaling::Type::none) return;
  check_range("rope_scaling.factor", s.factor, 1e-3, 1e6);
  if (s.type != RopeScaling::Type::llama3) return;
  check_range<int64_t>("rope_scaling.original_max_position_embeddings", s.original_n_ctx, 1, kMaxDimension);
  if (!(std::isfinite(s.low_freq_factor) && std::isfinite(s.high_freq_factor) && s.low_freq_factor > 0 &&
        s.high_freq_factor > s.low_freq_factor)) {
    fail_key("rope_scaling", "expected 0 < low_freq_factor < high_freq_factor, found {} and {}",
             s.low_freq_factor, s.high_freq_factor);
  }
}

using nlohmann::json;

// Reads the ids of special tokens from a JSON object. An id beyond the vocabulary can never occur. Such ids
// are common in files of other programs and are ignored there. In a gpt.cpp file, such an id is an error.
void read_token_ids(const json& object, bool is_foreign, ModelConfig& c) {
  const auto add = [&](const json& v, const char* key, std::vector<int64_t>& ids) {
    int64_t value = -1;
    from_json_value(key, v, value);
    if (value >= 0 && value < c.vocab_size) {
      ids.push_back(value);
    } else if (!is_foreign) {
      fail("\"{}\": expected an id below vocab_size = {}, found {}", key, c.vocab_size, value);
    }
  };
  const auto given = [&](const char* key) { return object.contains(key) && !object[key].is_null(); };
  if (given("bos_token_id")) {
    std::vector<int64_t> ids;
    add(object["bos_token_id"], "bos_token_id", ids);
    c.bos_token_id = ids.empty() ? -1 : ids[0];
  }
  if (!given("eos_token_id")) return;
  c.eos_token_ids.clear();
  const json& eos = object["eos_token_id"];
  if (!eos.is_array()) return add(eos, "eos_token_id", c.eos_token_ids);
  constexpr size_t kMost = 1024;
  if (eos.size() > kMost) fail("\"eos_token_id\": expected at most {} ids, found {}", kMost, eos.size());
  for (const json& v : eos)
    add(v, "eos_token_id", c.eos_token_ids);
}

const Family& family_of(const json& object, const std::string& what) {
  if (!object.is_object()) fail("{}: expected a JSON object", what);
  if (!object.contains("model_type") || !object["model_type"].is_string()) {
    fail("{}: expected a string \"model_type\" (one of {}), found none", what,
         fmt::join(transformed(families(), &Family::name), ", "));
  }
  const std::string type = object["model_type"];
  if (const Family* family = find_family(type)) return *family;
  fail_unsupported("{}: model_type {} is not supported; expected one of {}", what, printable(type),
                   fmt::join(transformed(families(), &Family::name), ", "));
}

// Returns true for the keys that export_config writes in addition to the model keys. Also returns true for
// notes, whose keys start with an underscore.
bool ignorable(const std::string& key) {
  constexpr std::string_view kKeys[] = {"architectures",        "dtype",       "torch_dtype",
                                        "transformers_version", "use_cache",   "pad_token_id",
                                        "bos_token_id",         "eos_token_id"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys) || key.starts_with('_');
}

// Reads the config of a gpt.cpp family. Keys in the JSON object override the defaults of the family. The key
// names are those of gpt.cpp or of the family's original write-up.
ModelConfig own_config(const Family& family, const json& object) {
  json mine = json::object();
  for (const auto& [key, value] : object.items()) {
    if (key != "model_type" && !ignorable(key)) mine[key] = value;
  }
  ModelConfig config = family_config(family);
  const std::vector<std::string> unknown = read_model_keys(mine, config);
  if (!unknown.empty()) fail("unknown key {}", printable(unknown.front()));
  complete(config);
  return config;
}

// The token ids in generation_config.json override the token ids in config.json, as in transformers.
void read_generation_config(const std::string& path, bool is_foreign, ModelConfig& config) {
  const json object = read_json_file(path);
  if (!object.is_object()) fail("{}: expected a JSON object", path);
  try {
    read_token_ids(object, is_foreign, config);
  } catch (const Error& error) {
    fail_because(error, "{}: {}", path, error.what());
  }
}

json token_ids(const std::vector<int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? json(ids[0]) : json(ids);
}

// Returns the dtype name of transformers.
std::string type_name(DType dtype) {
  if (dtype == DType::f16) return "float16";
  return dtype == DType::bf16 ? "bfloat16" : "float32";
}

struct Written {
  const Family& family;
  json keys;
};

// Writes the config in the format of the first family that can express it. The gpt.cpp format can express
// every model whose layers are equal. Throws Error if the layers of the model differ.
Written written(const ModelConfig& c) {
  if (!c.layers.empty() || c.middle_layer >= 0)
    fail("this model cannot be saved: no model family has a config.json format for its layers");
  for (const Family* family : families()) {
    if (auto keys = write_config_keys(*family, c)) return {*family, std::move(*keys)};
  }
  return {family::own, model_keys_json(c)};
}

void check_layers(const ModelConfig& c) {
  if (c.layers.empty()) return;
  if (std::ssize(c.layers) != c.n_layer)
    fail("model config: expected n_layer = {} layers, found {}", c.n_layer, c.layers.size());
  for (size_t i = 0; i < c.layers.size(); ++i) {
    const LayerConfig& l = c.layers[i];
    const auto check = [&](const char* name, int64_t value, int64_t low, int64_t high) {
      check_range(fmt::format("layers[{}].{}", i, name).c_str(), value, low, high);
    };
    check("n_head", l.n_head, 1, 65536);
    check("n_kv_head", l.n_kv_head, 1, l.n_head);
    check("n_head % n_kv_head", l.n_head % l.n_kv_head, 0, 0);
    check("head_dim", l.head_dim, 1, 4096);
    check("d_ff", l.d_ff, 1, 1 << 22);
    check("window", l.window, 0, kMaxDimension);
    check("slot_state", l.slot_state, 0, kMaxDimension);
    check("kv_layer", l.kv_layer, -1, static_cast<int64_t>(i) - 1);
    if (!l.owns_kv()) {
      const LayerConfig& owner = c.layers[static_cast<size_t>(l.kv_layer)];
      check("kv_layer.kv_layer", owner.kv_layer, -1, -1);
      check("n_kv_head", l.n_kv_head, owner.n_kv_head, owner.n_kv_head);
      check("head_dim", l.head_dim, owner.head_dim, owner.head_dim);
    }
    if (l.attention_scale) check_range("attention_scale", *l.attention_scale, 1e-6, 1e6);
    check_range("norm_eps", l.norm_eps, 0.0, 1.0);
    if (!l.rope) continue;
    check("rope.head_dim", l.rope->head_dim, l.head_dim, l.head_dim);
    check("head_dim % 2", l.head_dim % 2, 0, 0);
    check_rope(*l.rope);
  }
}

}  // namespace

void complete(ModelConfig& c, bool vocab_known) {
  check_ranges(c, [](const auto& config, auto&& visit) { visit_model_keys(config, visit); });
  if (vocab_known) check_range<int64_t>("vocab_size", c.vocab_size, 1, kMaxDimension);
  if (c.d_ff == 0) c.d_ff = 4 * c.n_embd;
  complete_heads(c);
  complete_dropout(c);
  check_rope(rope_of(c));
  c.norm_bias = c.has_norm_bias();
  if (c.tie_embeddings && c.head_bias) fail_key("head_bias", "needs tie_embeddings = false");
  check_range<int64_t>("middle_layer", c.middle_layer, -1, c.n_layer - 1);
  check_layers(c);
}

RopeConfig rope_of(const ModelConfig& c) {
  return {.head_dim = c.head_dim,
          .theta = c.rope_theta,
          .scaling = c.rope_scaling,
          .dtype = c.rope_dtype,
          .layout = c.rope_layout,
          .sign = c.rope_sign};
}

LayerConfig uniform_layer(const ModelConfig& c) {
  const auto act_of = [](Act act) {
    switch (act) {
      case Act::gelu_tanh:
        return Activation::gelu_tanh;
      case Act::gelu:
        return Activation::gelu;
      case Act::relu:
        return Activation::relu;
      case Act::relu2:
        return Activation::relu2;
      case Act::swiglu:
        return Activation::silu;
    }
    __builtin_unreachable();
  };
  return {.n_embd = c.n_embd,
          .n_ctx = c.n_ctx,
          .attn_dropout = c.attn_dropout,
          .resid_dropout = c.resid_dropout,
          .n_head = c.n_head,
          .n_kv_head = c.n_kv_head,
          .head_dim = c.head_dim,
          .window = c.sliding_window,
          .rope = c.position == Position::rope ? std::optional(rope_of(c)) : std::nullopt,
          .qk_norm = c.qk_norm,
          .d_ff = c.d_ff,
          .act = act_of(c.act),
          .gated = c.is_gated(),
          .norm = c.norm,
          .norm_eps = c.norm_eps,
          .norm_affine = c.norm_affine,
          .norm_bias = c.norm_bias,
          .norm_position = c.norm_position};
}

std::vector<LayerConfig> layer_configs(const ModelConfig& c) {
  if (c.layers.empty()) return std::vector(static_cast<size_t>(c.n_layer), uniform_layer(c));
  std::vector<LayerConfig> layers = c.layers;
  for (LayerConfig& layer : layers) {
    layer.n_embd = c.n_embd;
    layer.n_ctx = c.n_ctx;
    layer.attn_dropout = c.attn_dropout;
    layer.resid_dropout = c.resid_dropout;
    layer.kv_shared = false;
  }
  for (const LayerConfig& layer : c.layers) {
    if (!layer.owns_kv()) layers[static_cast<size_t>(layer.kv_layer)].kv_shared = true;
  }
  return layers;
}

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
  for (const auto& item : own.items()) {  // clang 14 does not allow lambdas to capture structured bindings
    const std::string& key = item.key();
    const auto& value = item.value();
    bool found = false;
    visit_model_keys(config, [&](const Key& known, auto& field) {
      if (key != known.name) return;
      read_key(known, value, field);
      found = true;
    });
    if (!found) unknown.push_back(key);
  }
  return unknown;
}

nlohmann::json model_keys_json(const ModelConfig& config) {
  nlohmann::json object = nlohmann::json::object();
  visit_model_keys(config,
                   [&](const Key& key, const auto& field) { object[key.name] = to_json_value(field); });
  return object;
}

nlohmann::json given_model_keys_json(const ModelConfig& config) {
  nlohmann::json keys = model_keys_json(config);
  for (const char* dropout : {"dropout", "embd_dropout", "attn_dropout", "resid_dropout"}) {
    if (keys[dropout] < 0) keys.erase(dropout);
  }
  return keys;
}

std::vector<std::string> model_key_names() {
  std::vector<std::string> names;
  ModelConfig config;
  visit_model_keys(config, [&](const Key& key, auto&) { names.emplace_back(key.name); });
  return names;
}

// Error messages name the file, because the keys come from a file and not from command-line flags.
ModelConfig model_config_from_json(const json& object, const std::string& path) {
  const Family& family = family_of(object, path);
  const bool is_foreign = !family.keys.empty();
  try {
    ModelConfig config = is_foreign ? read_config_keys(family, object) : own_config(family, object);
    json ids = object;
    const auto add_missing = [&](const char* key, int64_t id) {
      if (id >= 0 && !object.contains(key)) ids[key] = id;
    };
    add_missing("bos_token_id", family.bos_token_id);
    add_missing("eos_token_id", family.eos_token_id);
    read_token_ids(ids, is_foreign, config);
    return config;
  } catch (const Error& error) {
    fail_because(error, "{}: {}", path, error.what());
  }
}

ModelConfig read_model_config(const std::string& path) {
  const json object = read_json_file(path);
  ModelConfig config = model_config_from_json(object, path);
  const std::filesystem::path beside = std::filesystem::path(path).replace_filename("generation_config.json");
  if (std::filesystem::exists(beside))
    read_generation_config(beside.string(), !family_of(object, path).keys.empty(), config);
  return config;
}

const Family& export_family(const ModelConfig& c) {
  return written(c).family;
}

json export_config(const ModelConfig& c, DType dtype) {
  auto [family, out] = written(c);
  out["model_type"] = family.name;
  if (!family.keys.empty()) {
    out["architectures"] = {family.causal_lm};
    out["dtype"] = type_name(dtype);
    out["pad_token_id"] = nullptr;
  }
  out["bos_token_id"] = c.bos_token_id >= 0 ? json(c.bos_token_id) : json(nullptr);
  out["eos_token_id"] = token_ids(c.eos_token_ids);
  return out;
}

}  // namespace gpt
