// config.json, as it is read and written.

#include <algorithm>
#include <filesystem>

#include "base/suggest.h"
#include "io/json.h"
#include "io/printable.h"
#include "model/config_alias.h"
#include "model/families/family.h"
#include "model/json_value.h"
#include "model/model_files.h"

namespace gpt {
namespace {

using nlohmann::json;

// The ids that the object has. One beyond the vocabulary never occurs: in a foreign file it is left out, as
// many have one; a file of ours with one is wrong.
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
    fail("{}: expected a string \"model_type\" (gpt2, openai-gpt, llama, nanochat, gpt.cpp, ...), found none",
         what);
  }
  const std::string type = object["model_type"];
  if (const Family* family = find_family(type)) return *family;
  std::vector<std::string> known;
  for (const Family* family : families())
    known.emplace_back(family->name);
  fail("{}: model_type {} is not supported{}", what, printable(type), did_you_mean(type, known));
}

// What export_config writes beside the switches, and notes.
bool ignorable(const std::string& key) {
  constexpr std::string_view kKeys[] = {"architectures",        "dtype",       "torch_dtype",
                                        "transformers_version", "use_cache",   "pad_token_id",
                                        "bos_token_id",         "eos_token_id"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys) || key.starts_with('_');
}

// A family of ours: our keys, or those of its write-up, on top of its switches.
ModelConfig own_config(const Family& family, const json& object) {
  json mine = json::object();
  for (const auto& [key, value] : object.items()) {
    if (key != "model_type" && !ignorable(key)) mine[key] = value;
  }
  json keys = family_switches(family);
  keys.update(translate_aliases(mine));
  ModelConfig config;
  const std::vector<std::string> unknown = read_model_keys(keys, config);
  if (!unknown.empty()) fail("unknown key {}", printable(unknown.front()));
  complete(config);
  return config;
}

// What transformers generates with: the ids of generation_config.json go before those of config.json.
void read_generation_config(const std::string& path, bool is_foreign, ModelConfig& config) {
  const json object = read_json_file(path);
  if (!object.is_object()) fail("{}: expected a JSON object", path);
  try {
    read_token_ids(object, is_foreign, config);
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

json token_ids(const std::vector<int64_t>& ids) {
  if (ids.empty()) return nullptr;
  return ids.size() == 1 ? json(ids[0]) : json(ids);
}

// transformers' names.
std::string type_name(DType dtype) {
  if (dtype == DType::f16) return "float16";
  return dtype == DType::bf16 ? "bfloat16" : "float32";
}

struct Written {
  const Family& family;
  json keys;
};

// As the first family that can express the config, which ours can.
Written written(const ModelConfig& c) {
  for (const Family* family : families()) {
    if (auto keys = write_config_keys(*family, c)) return {*family, std::move(*keys)};
  }
  return {family::own, model_keys_json(c)};
}

}  // namespace

// Keys of a file are no flags of the user: the message names the file.
ModelConfig model_config_from_json(const json& object, const std::string& path) {
  const Family& family = family_of(object, path);
  const bool is_foreign = !family.keys.empty();
  try {
    ModelConfig config = is_foreign ? read_config_keys(family, object) : own_config(family, object);
    json ids = json::parse(family.missing);
    ids.update(object);
    read_token_ids(ids, is_foreign, config);
    return config;
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
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
