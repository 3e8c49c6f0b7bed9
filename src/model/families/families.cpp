#include <nlohmann/json.hpp>

#include "base/ranges.h"
#include "model/families/family.h"

namespace gpt {
namespace {

#define GPT_ADDRESS_OF_FAMILY(name) &family::name,

std::vector<const Family*>& list() {
  static std::vector<const Family*> all = {GPT_FOR_EACH_FAMILY(GPT_ADDRESS_OF_FAMILY)};
  return all;
}

}  // namespace

const std::vector<const Family*>& families() {
  return list();
}

const Family* find_family(std::string_view name) {
  const auto* at = find_by(list(), &Family::name, name);
  return at == nullptr ? nullptr : *at;
}

nlohmann::json family_switches(const Family& family) {
  return nlohmann::json::parse(family.switches);
}

std::vector<ConfigKey> all_keys(const Family& family) {
  std::vector<ConfigKey> keys(family.keys.begin(), family.keys.end());
  keys.insert(keys.end(), family.more_keys.begin(), family.more_keys.end());
  return keys;
}

AddFamily::AddFamily(const Family& family) {
  list().push_back(&family);
}

}  // namespace gpt
