#include "model/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "model/families/family.h"

namespace gpt {
namespace {

struct Entry {
  const Family* family = nullptr;
  Preset preset = {};
};

std::vector<Entry> entries() {
  std::vector<Entry> all;
  for (const Family* family : families()) {
    for (const Preset& preset : family->presets)
      all.push_back({family, preset});
  }
  return all;
}

Entry need_preset(const std::string& name) {
  for (const Entry& entry : entries()) {
    if (entry.preset.name == name) return entry;
  }
  fail_usage("unknown preset \"{}\"{} (known: {})", name, did_you_mean(name, preset_names()),
             fmt::join(preset_names(), ", "));
}

}  // namespace

bool is_preset(const std::string& name) {
  const std::vector<std::string> names = preset_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

ModelConfig preset_config(const std::string& name) {
  const Entry entry = need_preset(name);
  ModelConfig c = family_config(*entry.family);
  set_shape(c, entry.preset.shape);
  if (entry.preset.more != nullptr) entry.preset.more(c);
  return c;
}

nlohmann::json preset_keys(const std::string& name) {
  nlohmann::json keys = given_model_keys_json(preset_config(name));
  const auto add = [&](const char* key, const auto& value) {
    if (value) keys[key] = *value;
  };
  const PresetTraining& t = need_preset(name).preset.training;
  if (t.tokenizer != nullptr) keys["tokenizer"] = t.tokenizer;
  if (t.sampling != nullptr) keys["sampling"] = t.sampling;
  add("batch_size", t.batch_size);
  add("steps", t.steps);
  add("warmup", t.warmup);
  add("lr", t.lr);
  add("min_lr", t.min_lr);
  add("beta2", t.beta2);
  add("weight_decay", t.weight_decay);
  add("clip_norm", t.clip_norm);
  add("eval_every", t.eval_every);
  add("eval_batches", t.eval_batches);
  add("sample_every", t.sample_every);
  add("eval_train", t.eval_train);
  return keys;
}

nlohmann::json switch_keys(const Family& family) {
  const nlohmann::json own = model_keys_json(family_config(family)), defaults = model_keys_json({});
  nlohmann::json keys = nlohmann::json::object();
  for (const Family* other : families()) {
    const nlohmann::json switches = model_keys_json(family_config(*other));
    for (const auto& [key, value] : switches.items()) {
      if (value != defaults[key]) keys[key] = own[key];
    }
  }
  return keys;
}

std::string preset_purpose(const std::string& name) {
  return need_preset(name).preset.purpose;
}

std::vector<std::string> preset_names() {
  return transformed(entries(), [](const Entry& entry) { return std::string(entry.preset.name); });
}

}  // namespace gpt
