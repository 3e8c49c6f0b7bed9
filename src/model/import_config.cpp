// config.json, as it is read.

#include <filesystem>

#include "io/json.h"
#include "io/printable.h"
#include "model/config_alias.h"
#include "model/foreign_config.h"
#include "model/json_value.h"
#include "model/model_files.h"

namespace gpt {
namespace {

using nlohmann::json;

// The ids that the object has. One beyond the vocabulary never occurs: in a foreign file it is left out, as
// many have one; a file of ours with one is wrong.
void read_token_ids(const json& object, const std::string& what, bool is_foreign, ModelConfig& c) {
  const auto add = [&](const json& v, const char* key, std::vector<int64_t>& ids) {
    int64_t value = -1;
    from_json_value(key, v, value);
    if (value >= 0 && value < c.vocab_size) {
      ids.push_back(value);
    } else if (!is_foreign) {
      fail("{}: \"{}\": expected an id below vocab_size = {}, found {}", what, key, c.vocab_size, value);
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
  if (eos.size() > kMost)
    fail("{}: \"eos_token_id\": expected at most {} ids, found {}", what, kMost, eos.size());
  for (const json& v : eos)
    add(v, "eos_token_id", c.eos_token_ids);
}

// A family of ours: our keys, or those of its write-up.
ModelConfig own_config(const json& object, const std::string& path) {
  const json keys = translate_model_config(object, path);
  ModelConfig config;
  try {
    const std::vector<std::string> unknown = read_model_keys(keys, config);
    if (!unknown.empty()) fail("unknown key {}", printable(unknown.front()));
    complete(config);
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
  read_token_ids(object, path, false, config);
  return config;
}

ModelConfig foreign_config_with_ids(const json& object, const std::string& path) {
  ModelConfig config;
  try {
    config = foreign_config(object);
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
  read_token_ids(foreign_token_ids(object), path, true, config);
  return config;
}

// What transformers generates with: the ids of generation_config.json go before those of config.json.
void read_generation_config(const std::string& path, bool is_foreign, ModelConfig& config) {
  try {
    const json object = read_json_file(path);
    if (!object.is_object()) fail("{}: expected a JSON object", path);
    read_token_ids(object, path, is_foreign, config);
  } catch (const UsageError& error) {
    fail("{}: {}", path, error.what());
  }
}

}  // namespace

// Keys of a file are no flags of the user: the message names the file.
ModelConfig model_config_from_json(const json& object, const std::string& path) {
  try {
    if (is_foreign_family(model_type_of(object, path))) return foreign_config_with_ids(object, path);
    return own_config(object, path);
  } catch (const UsageError& error) {
    fail("{}: {}", path, error.what());
  }
}

ModelConfig read_model_config(const std::string& path) {
  const json object = read_json_file(path);
  ModelConfig config = model_config_from_json(object, path);
  const std::filesystem::path beside = std::filesystem::path(path).replace_filename("generation_config.json");
  if (std::filesystem::exists(beside))
    read_generation_config(beside.string(), is_foreign_family(object["model_type"]), config);
  return config;
}

}  // namespace gpt
