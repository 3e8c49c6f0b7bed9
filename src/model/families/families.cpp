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

ModelConfig family_config(const Family& family) {
  ModelConfig config;
  if (family.switches != nullptr) family.switches(config);
  return config;
}

void set_shape(ModelConfig& c, const ModelShape& shape) {
  c.vocab_size = shape.vocab_size;
  c.n_ctx = shape.n_ctx;
  c.n_layer = shape.n_layer;
  c.n_head = shape.n_head;
  c.n_kv_head = shape.n_kv_head;
  c.n_embd = shape.n_embd;
  c.d_ff = shape.d_ff;
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
