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

nlohmann::json preset(const std::string& name) {
  const Entry entry = need_preset(name);
  nlohmann::json keys = family_switches(*entry.family);
  keys.update(nlohmann::json::parse(entry.preset.keys));
  return keys;
}

std::string preset_purpose(const std::string& name) {
  return need_preset(name).preset.purpose;
}

std::vector<std::string> preset_names() {
  return transformed(entries(), [](const Entry& entry) { return std::string(entry.preset.name); });
}

}  // namespace gpt
