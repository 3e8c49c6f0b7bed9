#include "model/config_alias.h"

#include <algorithm>

#include "base/printable.h"
#include "base/ranges.h"
#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {
namespace {

using nlohmann::json;

bool is_name_of(const ConfigKey& key, const std::string& name) {
  return name == key.theirs || (key.other_name != nullptr && name == key.other_name);
}

// Returns the config keys with a given name, from the first family that uses the name. Several keys can have
// the same name: "attention_bias" sets two fields.
std::vector<ConfigKey> keys_named(const std::string& name) {
  std::vector<ConfigKey> found;
  const auto add = [&](std::span<const ConfigKey> keys) {
    std::ranges::copy_if(keys, std::back_inserter(found),
                         [&](const auto& key) { return is_name_of(key, name); });
  };
  for (const Family* family : families()) {
    for (const ForeignNames& names : family->foreign_names)
      add(names.keys);
    add(all_keys(*family));
    if (!found.empty()) break;
  }
  return found;
}

// Returns the training key with this name, or null if there is none.
const char* training_key_of(const std::string& name) {
  for (const Family* family : families()) {
    for (const ForeignNames& names : family->foreign_names) {
      if (const auto* key = find_by(names.training, &ForeignNames::Training::theirs, name)) return key->ours;
    }
  }
  return nullptr;
}

void put(json& out, const std::string& key, const json& value, const std::string& from) {
  if (out.contains(key) && out[key] != value) {
    fail_usage(
        "config key {}: {} sets it to {}, but a different name of the key sets it to {}; keep only one",
        printable(key), from, printable(value.dump()), printable(out[key].dump()));
  }
  out[key] = value;
}

// transformers 5 writes rope_parameters. Older versions write rope_theta and rope_scaling.
void put_rope_parameters(json& out, const json& value) {
  if (value.is_null()) return;
  if (!value.is_object()) wrong_value("rope_parameters", "an object", value);
  if (value.contains("rope_theta")) put(out, "rope_theta", value["rope_theta"], "rope_parameters");
  RopeScaling scaling;
  from_json_value("rope_parameters", value, scaling);
  put(out, "rope_scaling", to_json_value(scaling), "rope_parameters");
}

// Looks up the name in the list of the key first, because "gelu" has a different meaning in other lists.
json translate_act(const json& value, std::span<const ActName> own) {
  std::vector<std::span<const ActName>> lists = {own, kPlainActs, kGatedActs};
  for (const Family* family : families()) {
    for (const ForeignNames& names : family->foreign_names) {
      for (const ConfigKey& key : names.keys)
        lists.push_back(key.acts);
    }
  }
  for (const std::span<const ActName> list : lists) {
    for (const ActName& name : list) {
      if (value == name.theirs) return to_json_value(name.ours);
    }
  }
  return value;
}

json translate_value(const std::string& key, const json& value, std::span<const ActName> acts) {
  if (key == "act") return translate_act(value, acts);
  constexpr std::string_view kZeroIfNull[] = {"logit_softcap", "d_ff", "n_kv_head", "head_dim",
                                              "sliding_window"};
  return value.is_null() && std::ranges::count(kZeroIfNull, key) > 0 ? json(0) : value;
}

}  // namespace

std::string config_key_of(const std::string& theirs) {
  if (const char* training = training_key_of(theirs)) return training;
  const std::vector<ConfigKey> keys = keys_named(theirs);
  if (keys.size() != 1 || field_name(keys[0].field) == theirs) return "";
  return field_name(keys[0].field);
}

json translate_aliases(const json& object) {
  json out = json::object();
  for (const auto& item : object.items()) {  // clang 14 does not allow lambdas to capture structured bindings
    const std::string& name = item.key();
    const json& value = item.value();
    const std::vector<ConfigKey> keys = keys_named(name);
    for (const ConfigKey& key : keys) {
      const char* const ours = field_name(key.field);
      put(out, ours, translate_value(ours, value, key.acts), name);
    }
    if (!keys.empty()) continue;
    if (name == "rope_parameters") {
      put_rope_parameters(out, value);
    } else {
      const char* const training = training_key_of(name);
      const std::string ours = training != nullptr ? training : name;
      put(out, ours, translate_value(ours, value, {}), name);
    }
  }
  return out;
}

void require_family(const json& object, const std::string& what) {
  if (object.contains("model_type")) return;
  for (const Family* family : families()) {
    for (const ForeignNames& names : family->foreign_names) {
      const auto told =
          std::ranges::find_if(names.telling, [&](const char* key) { return object.contains(key); });
      if (told == names.telling.end()) continue;
      fail_usage(
          "{}: \"{}\" is a config key of {}, but the file does not specify the norms, biases and other "
          "switches of the architecture; specify them with {}",
          what, *told, names.program, names.remedy);
    }
  }
}

}  // namespace gpt
