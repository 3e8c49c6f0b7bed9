#include "model/families/tensor_names.h"

#include <fmt/core.h>

#include <algorithm>

#include "model/families/family.h"

namespace gpt {
namespace {

struct Part {
  LayerNames Naming::*layers;
  size_t layer;
  size_t word;  // 0: weight, 1: bias
};

// Indexed by role.
constexpr Part kParts[] = {
    {&Naming::outside, 0, 0}, {&Naming::outside, 1, 0}, {&Naming::norms, 0, 0},   {&Naming::norms, 0, 1},
    {&Naming::qkv, 0, 0},     {&Naming::qkv, 1, 0},     {&Naming::qkv, 2, 0},     {&Naming::qkv, 0, 1},
    {&Naming::qkv, 1, 1},     {&Naming::qkv, 2, 1},     {&Naming::linear, 0, 0},  {&Naming::linear, 0, 1},
    {&Naming::norms, 1, 0},   {&Naming::norms, 1, 1},   {&Naming::linear, 3, 0},  {&Naming::linear, 1, 0},
    {&Naming::linear, 3, 1},  {&Naming::linear, 1, 1},  {&Naming::linear, 2, 0},  {&Naming::linear, 2, 1},
    {&Naming::outside, 2, 0}, {&Naming::outside, 2, 1}, {&Naming::outside, 3, 0}, {&Naming::outside, 3, 1}};
static_assert(std::size(kParts) == static_cast<size_t>(Role::head_bias) + 1);

bool is_fused(const Naming& naming, const Part& part) {
  return part.layers == &Naming::qkv && naming.qkv[1] == nullptr;
}

std::string tensor_name(const Naming& naming, Role role, int64_t block, int64_t expert = -1) {
  const Part& part = kParts[static_cast<size_t>(role)];
  const char* pattern = (naming.*part.layers)[is_fused(naming, part) ? 0 : part.layer];
  if (pattern == nullptr) return "";
  const bool norm = part.layers == &Naming::norms || role == Role::final_gain || role == Role::final_bias;
  const char* word = (norm ? naming.norm_words : naming.words)[part.word];
  const std::string full = std::string(part.layers == &Naming::outside ? "" : naming.block) + pattern;
  return fmt::format(fmt::runtime(full), block, word, expert);
}

// Returns the parameters that distinguish the families: the token embedding and two matrices of the first
// layer. For a model without layers, returns all parameters.
std::vector<const ParamSpec*> telling_specs(const ParamTable& table, const ModelConfig& c) {
  std::vector<const ParamSpec*> telling = {&table[table.find(Role::wte)]};
  for (const ParamSpec& spec : table.specs()) {
    const bool tells = spec.layer == 0 && (spec.role == Role::q_weight || spec.role == Role::up_proj_weight);
    if (tells || c.n_layer == 0) telling.push_back(&spec);
  }
  return telling;
}

}  // namespace

FilePlace file_place(const Naming& naming, const ModelConfig& c, const ParamSpec& spec) {
  FilePlace place;
  place.tensor = tensor_name(naming, spec.role, spec.layer, spec.expert);
  if (place.tensor.empty()) return place;
  place.file_shape = spec.shape;
  const Part& part = kParts[static_cast<size_t>(spec.role)];
  if (is_fused(naming, part)) {
    place.file_shape[0] = c.qkv_dim();
    place.first_row = part.layer == 0 ? 0 : c.q_dim() + (part.layer == 2 ? c.kv_dim() : 0);
  }
  place.transposed = naming.transposed_blocks && spec.layer >= 0 && spec.shape.size() == 2;
  if (place.transposed) std::swap(place.file_shape[0], place.file_shape[1]);
  return place;
}

std::string module_name(const Naming& naming, Role role) {
  const std::string name = tensor_name(naming, role, 0);
  const size_t end = name.rfind('.');
  if (end == std::string::npos) return "";
  const size_t begin = name.rfind('.', end - 1);
  return begin == std::string::npos ? name.substr(0, end) : name.substr(begin + 1, end - begin - 1);
}

const Naming* detect_naming(const ParamTable& table, const ModelConfig& c,
                            const std::function<const TensorInfo*(const std::string&)>& find,
                            bool& prefix_missing) {
  const std::vector<const ParamSpec*> telling = telling_specs(table, c);
  const int q = table.find(Role::q_weight, 0);
  const Naming* by_name = nullptr;
  const auto fits = [&](const Naming& naming) {
    const auto tensor = [&](const ParamSpec& spec) {
      const std::string name = file_place(naming, c, spec).tensor;
      return find(prefix_missing ? without_base_prefix(name) : name);
    };
    if (!std::ranges::all_of(telling, [&](const auto* spec) { return tensor(*spec) != nullptr; }))
      return false;
    if (by_name == nullptr) by_name = &naming;
    // All of these programs use the tensor names of GPT-2, but transformers stores matrices as [in,out],
    // while minGPT and nanoGPT store matrices as [out,in].
    return q < 0 || tensor(table[q])->shape == file_place(naming, c, table[q]).file_shape;
  };
  for (const bool missing : {false, true}) {
    prefix_missing = missing;
    for (const Family* family : families()) {
      for (const Naming* naming : family->namings) {
        if (naming != nullptr && fits(*naming)) return naming;
      }
    }
    if (by_name != nullptr) break;
  }
  return by_name;
}

std::string without_base_prefix(const std::string& name) {
  for (const std::string_view prefix : {"transformer.", "model."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

bool is_buffer_name(std::string_view name) {
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  return name == "cos" || name == "sin" || name == "rope_freqs.weight" || name.starts_with("freq_cis_") ||
         ends(".cos") || ends(".sin") || ends(".attn.mask") || ends(".att.mask") || ends(".attn.bias") ||
         ends(".attn.masked_bias") || ends("rotary_emb.inv_freq") || ends("position_ids");
}

std::string head_name(const Naming& naming) {
  return tensor_name(naming, Role::head_weight, -1);
}

}  // namespace gpt
