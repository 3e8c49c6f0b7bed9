#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/families/config_keys.h"
#include "model/families/tensor_names.h"

namespace gpt {

// Sizes of a model; the defaults are those of ModelConfig.
struct ModelShape {
  int64_t vocab_size = 0, n_ctx = 1024, n_layer = 12, n_head = 12, n_kv_head = 0, n_embd = 768, d_ff = 0;
};

// Training settings that the source of a preset states. The other settings keep the program's defaults.
struct PresetTraining {
  const char* tokenizer = nullptr;
  const char* sampling = nullptr;
  std::optional<int64_t> batch_size = {}, steps = {}, warmup = {};
  std::optional<double> lr = {}, min_lr = {}, beta2 = {}, weight_decay = {}, clip_norm = {};
  std::optional<int64_t> eval_every = {}, eval_batches = {}, sample_every = {};
  std::optional<bool> eval_train = {};
};

// A named model of a family.
struct Preset {
  const char* name;
  const char* purpose;  // a few words
  ModelShape shape;
  void (*more)(ModelConfig& config) = nullptr;  // sets what differs from the family besides the shape
  PresetTraining training = {};
};

// Names that a program has for settings, next to those of its config.json.
struct ForeignNames {
  // A file of settings with one of these keys and no "model_type" is refused: the error says that the key is
  // a name of `program` and that `remedy` gives the switches that the file leaves open.
  std::span<const char* const> telling = {};
  const char* program = nullptr;
  const char* remedy = nullptr;
  std::span<const ConfigKey> keys = {};
  struct Training {
    const char *theirs, *ours;
  };
  std::span<const Training> training = {};
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
  std::string_view name;                            // "model_type" in config.json
  void (*switches)(ModelConfig& config) = nullptr;  // sets what tells it from a default ModelConfig
  std::span<const Preset> presets = {};

  // Tensors of its checkpoints; the first naming is written.
  std::array<const Naming*, 2> namings = {};

  // Its config.json as transformers has it; without `keys` it is of ours, with our keys.
  std::span<const ConfigKey> keys = {};
  std::span<const ConfigKey> more_keys = {};
  // What keys are that are missing.
  ModelShape missing = {};
  double missing_dropout = -1;                   // -1: as in `switches`
  int64_t bos_token_id = -1, eos_token_id = -1;  // -1: none
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
  std::span<const ForeignNames> foreign_names = {};
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

// What several families have.
// clang-format off
inline constexpr PresetTraining kGpt1Training = {.sampling = "epoch", .batch_size = 64, .warmup = 2000,
                                                 .lr = 2.5e-4, .min_lr = 0, .weight_decay = 0.01};
// clang-format on
void set_llama_switches(ModelConfig& config);
void set_nanochat_switches(ModelConfig& config);
extern const Naming kLlamaNaming, kGgufNaming, kGgufFusedNaming;

// All families: these, then those that were added.
const std::vector<const Family*>& families();
// The family of a model_type, or null.
const Family* find_family(std::string_view name);
// The config of a family before anything else is known of the model.
ModelConfig family_config(const Family& family);
std::vector<ConfigKey> all_keys(const Family& family);

void set_shape(ModelConfig& config, const ModelShape& shape);

// Adds a family that is not in the list, as an object outside of all functions: before main.
struct AddFamily {
  explicit AddFamily(const Family& family);
};

}  // namespace gpt
