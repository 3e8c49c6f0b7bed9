#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "model/families/config_keys.h"
#include "model/families/tensor_names.h"

namespace gpt {

// A shape that has a name, and the training settings that go with it where its source has them.
struct Preset {
  const char* name;
  const char* purpose;  // a few words
  const char* keys;     // JSON object of config keys, on top of the family's switches
};

// Its models in GGUF files.
struct Gguf {
  const char* architecture = nullptr;  // "general.architecture"; null: none of its own
  const Naming* naming = nullptr;
  RopeLayout rope_layout = RopeLayout::halves;
  bool optional_biases = false;  // whether there are some the tensors tell; else they are as in `switches`
};

// All that is known of one family of models, as the file families/NAME.cpp says it.
struct Family {
  std::string_view name;  // "model_type" in config.json
  const char* switches;   // what tells it from GPT-2 before anything is said: JSON object of config keys
  std::span<const Preset> presets = {};

  // Tensors of its checkpoints; the first naming is written.
  std::array<const Naming*, 2> namings = {};

  // Its config.json as transformers has it; without `keys` it is of ours, with our keys.
  std::span<const ConfigKey> keys = {};
  std::span<const ConfigKey> more_keys = {};
  const char* missing = "{}";  // JSON object: keys that are missing, where that is not as in `switches`
  std::span<const FixedKey> fixed = {};
  void (*read)(const nlohmann::json& object, ModelConfig& config) = nullptr;   // what is not in the lists,
  void (*write)(const ModelConfig& config, nlohmann::json& object) = nullptr;  // and back
  // On files that programs read differently: for people, or "".
  std::string (*note)(const nlohmann::json& object) = nullptr;
  bool no_window = false;                              // see check_no_window
  bool (*holds)(const ModelConfig& config) = nullptr;  // false: a config that its program does not take
  const char* causal_lm = nullptr;                     // transformers' classes
  const char* sequence_classification = nullptr;
  const char* double_heads = nullptr;   // for multiple choice
  const char* chat_template = nullptr;  // what its chat models are trained with: a --template of gpt chat

  Gguf gguf = {};
};

// Their files, in the order in which they are tried.
#define GPT_FOR_EACH_FAMILY(X) \
  X(own)                       \
  X(gpt2)                      \
  X(openai_gpt)                \
  X(gpt1_preln)                \
  X(gpt2_scratch)              \
  X(mini_gpt)                  \
  X(llama)                     \
  X(qwen2)                     \
  X(mistral)                   \
  X(nanochat)                  \
  X(nanochat_notebook)         \
  X(nanochat_doc)

namespace family {
#define GPT_DECLARE_FAMILY(name) extern const Family name;
GPT_FOR_EACH_FAMILY(GPT_DECLARE_FAMILY)
#undef GPT_DECLARE_FAMILY
}  // namespace family

// Names that several families have.
extern const Naming kLlamaNaming, kGgufNaming, kGgufFusedNaming;

// All families: these, then those that were added.
const std::vector<const Family*>& families();
// The family of a model_type, or null.
const Family* find_family(std::string_view name);
nlohmann::json family_switches(const Family& family);
std::vector<ConfigKey> all_keys(const Family& family);

// Adds a family that is not in the list, as an object outside of all functions: before main.
struct AddFamily {
  explicit AddFamily(const Family& family);
};

}  // namespace gpt
