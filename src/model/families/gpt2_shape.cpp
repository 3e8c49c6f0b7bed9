#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "base/ranges.h"
#include "model/families/checkpoints.h"
#include "model/json_value.h"
#include "model/model_files.h"

namespace gpt {
namespace {

using nlohmann::json;

// The model sizes for each model_type of minGPT.
struct MinGptType {
  const char* name;
  int64_t n_layer, n_head, n_embd;
};
constexpr MinGptType kMinGptTypes[] = {
    {"openai-gpt", 12, 12, 768},  {"gpt2", 12, 12, 768},     {"gpt2-medium", 24, 16, 1024},
    {"gpt2-large", 36, 20, 1280}, {"gpt2-xl", 48, 25, 1600}, {"gopher-44m", 8, 16, 512},
    {"gpt-mini", 6, 6, 192},      {"gpt-micro", 4, 4, 128},  {"gpt-nano", 3, 3, 48}};

constexpr const char* kMinGptKeys[] = {"model_type", "n_layer",    "n_head",      "n_embd",    "vocab_size",
                                       "block_size", "embd_pdrop", "resid_pdrop", "attn_pdrop"};

const MinGptType* mingpt_type(const json& name) {
  return find_by(kMinGptTypes, &MinGptType::name, name);
}

const json& settings_of(const json& root) {
  return root.contains("model") && root["model"].is_object() ? root["model"] : root;
}

const TensorInfo* find(const TensorFiles& tensors, const std::string& name) {
  const TensorInfo* tensor = tensors.find("transformer." + name);
  return tensor != nullptr ? tensor : tensors.find(name);
}

const TensorInfo& matrix(const TensorFiles& tensors, const std::string& name, const std::string& what) {
  const TensorInfo* tensor = find(tensors, name);
  if (tensor == nullptr || tensor->shape.size() != 2)
    fail("{}: expected a matrix \"{}\" as in GPT-2, found none", what, name);
  return *tensor;
}

bool is_tied(const TensorFiles& tensors) {
  const TensorInfo *head = tensors.find("lm_head.weight"), *wte = find(tensors, "wte.weight");
  return head == nullptr || (head->dtype == wte->dtype && head->bytes.size() == wte->bytes.size() &&
                             std::memcmp(head->bytes.data(), wte->bytes.data(), head->bytes.size()) == 0);
}

// Returns a config with all values that follow from the tensor shapes.
ModelConfig config_of_tensors(const TensorFiles& tensors, const std::string& what) {
  const auto has = [&](const std::string& name) { return find(tensors, "h.0." + name) != nullptr; };
  const Shape wte = matrix(tensors, "wte.weight", what).shape;
  const Shape fc = matrix(tensors, "h.0.mlp.c_fc.weight", what).shape;
  ModelConfig c;
  c.vocab_size = wte[0];
  c.n_embd = wte[1];
  c.n_ctx = matrix(tensors, "wpe.weight", what).shape[0];
  const Shape qkv = matrix(tensors, "h.0.attn.c_attn.weight", what).shape;
  c.d_ff = qkv == Shape{c.n_embd, 3 * c.n_embd} ? fc[1] : fc[0];
  const auto count = static_cast<int64_t>(tensors.tensors().size());
  for (c.n_layer = 0; c.n_layer < count && find(tensors, fmt::format("h.{}.attn.c_attn.weight", c.n_layer));)
    ++c.n_layer;
  c.qkv_bias = has("attn.c_attn.bias");
  c.out_bias = has("attn.c_proj.bias");
  c.mlp_bias = has("mlp.c_fc.bias");
  c.norm_bias = has("ln_1.bias");
  c.tie_embeddings = is_tied(tensors);
  return c;
}

// Returns the settings of minGPT as gpt.cpp keys. If a model_type specifies the model sizes, these sizes are
// included.
json mingpt_keys(const json& root, const std::string& what) {
  json keys = json::object();
  for (const auto& [key, value] : settings_of(root).items()) {
    if (std::ranges::find(kMinGptKeys, key) == std::end(kMinGptKeys))
      fail("{}: {} is not a config key of minGPT", what, printable(key));
    if (key != "model_type" && !value.is_null()) keys[key] = value;
  }
  if (const MinGptType* type = mingpt_type(settings_of(root).value("model_type", json()))) {
    const json shape = {{"n_layer", type->n_layer}, {"n_head", type->n_head}, {"n_embd", type->n_embd}};
    for (const auto& [key, value] : shape.items()) {
      if (!keys.contains(key)) keys[key] = value;
    }
  }
  return keys;
}

void check_same(const char* key, int64_t stated, int64_t found, const std::string& what) {
  if (stated == found) return;
  fail("{}: config.json specifies {} = {}, but the shapes of the tensors require {}", what, key, stated,
       found);
}

void apply_mingpt(const json& root, ModelConfig& c, const std::string& what) {
  ModelConfig stated = c;
  stated.n_head = 0;
  try {
    read_model_keys(mingpt_keys(root, what), stated);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    fail_because(error, "{}: {}", what, error.what());
  }
  check_same("n_layer", stated.n_layer, c.n_layer, what);
  check_same("n_embd", stated.n_embd, c.n_embd, what);
  check_same("vocab_size", stated.vocab_size, c.vocab_size, what);
  check_same("block_size", stated.n_ctx, c.n_ctx, what);
  c = stated;
}

[[noreturn]] void ask_for_heads(const ModelConfig& c, const std::string& what) {
  std::string divisors;
  for (int64_t n = 1; n <= std::min<int64_t>(c.n_embd, 256); ++n) {
    if (c.n_embd % n == 0) divisors += fmt::format("{}{}", divisors.empty() ? "" : ", ", n);
  }
  fail(
      "{}: the tensors do not determine n_head, a divisor of n_embd = {} ({}); set it with gpt convert MODEL "
      "OUT --n-head N or add a config.json to the folder",
      what, c.n_embd, divisors);
}

// minGPT and GPT-2 use the tanh form of GELU. Models of nanoGPT have a tied head and use the tanh form or the
// exact form, depending on the version of nanoGPT.
Act act_of(const TensorFiles& tensors, const ModelConfig& c, const ShapeHints& hints, bool mingpt,
           const std::string& what) {
  if (!hints.act.empty()) {
    Act act = Act::gelu_tanh;
    from_json_value("act", hints.act, act);
    return act;
  }
  const bool conv1d = matrix(tensors, "h.0.attn.c_attn.weight", what).shape == Shape{c.n_embd, 3 * c.n_embd};
  if (mingpt || conv1d || !c.tie_embeddings) return Act::gelu_tanh;
  fail(
      "{}: the tensors do not determine act; set it with gpt convert MODEL OUT --act gelu (nanoGPT since "
      "April 2023) or --act gelu_tanh (older nanoGPT, and minGPT)",
      what);
}

}  // namespace

bool has_gpt2_names(const TensorFiles& tensors) {
  return find(tensors, "wte.weight") != nullptr && find(tensors, "wpe.weight") != nullptr &&
         find(tensors, "h.0.attn.c_attn.weight") != nullptr;
}

bool is_mingpt_config(const json& root) {
  if (!root.is_object()) return false;
  const json& model = settings_of(root);
  const json type = model.value("model_type", json());
  return model.contains("block_size") && !model.contains("n_positions") &&
         (type.is_null() || mingpt_type(type) != nullptr);
}

ModelConfig gpt2_shape(const TensorFiles& tensors, const json& mingpt, const ShapeHints& hints,
                       const std::string& what) {
  ModelConfig c = config_of_tensors(tensors, what);
  c.n_head = 0;
  if (!mingpt.is_null()) apply_mingpt(mingpt, c, what);
  if (c.n_head == 0) c.n_head = hints.n_head;
  if (c.n_head == 0) ask_for_heads(c, what);
  c.act = act_of(tensors, c, hints, !mingpt.is_null(), what);
  return c;
}

}  // namespace gpt
