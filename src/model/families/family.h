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

// The sizes of a model. The defaults are those of ModelConfig.
struct ModelShape {
  int64_t vocab_size = 0, n_ctx = 1024, n_layer = 12, n_head = 12, n_kv_head = 0, n_embd = 768, d_ff = 0;
};

// Training settings from the original source of a preset. All other settings keep the defaults of gpt.cpp.
struct PresetTraining {
  const char* tokenizer = nullptr;
  const char* sampling = nullptr;
  std::optional<int64_t> batch_size = {}, steps = {}, warmup = {};
  std::optional<double> lr = {}, min_lr = {}, beta2 = {}, weight_decay = {}, clip_norm = {};
  std::optional<int64_t> eval_every = {}, eval_batches = {}, sample_every = {};
  std::optional<bool> eval_train = {};
};

// A named model config of a family.
struct Preset {
  const char* name;
  const char* purpose;  // short description
  ModelShape shape;
  void (*more)(ModelConfig& config) = nullptr;  // sets all other options that the preset changes
  PresetTraining training = {};
};

// The names of settings in another program, which config_alias.h translates. Keys of a transformers
// config.json are in Family::keys instead.
struct ForeignNames {
  // A settings file with one of these keys but without "model_type" is rejected. The error message names
  // `program` as the origin of the key, and recommends `remedy` to specify the missing options.
  std::span<const char* const> telling = {};
  const char* program = nullptr;
  const char* remedy = nullptr;
  std::span<const ConfigKey> keys = {};
  struct Training {
    const char *theirs, *ours;
  };
  std::span<const Training> training = {};
};

// Properties of a family's models in GGUF files.
struct Gguf {
  const char* architecture = nullptr;  // "general.architecture"; null: the family has none
  const Naming* naming = nullptr;
  RopeLayout rope_layout = RopeLayout::halves;
  // True: a bias exists if the file contains a tensor for it. False: `switches` determines which biases
  // exist.
  bool optional_biases = false;
};

// The complete description of a model family, defined in the file families/NAME.cpp.
struct Family {
  std::string_view name;                            // "model_type" in config.json
  void (*switches)(ModelConfig& config) = nullptr;  // sets options that differ from a default ModelConfig
  std::span<const Preset> presets = {};

  // Tensor names of the family's checkpoints. The first naming is used for writing.
  std::array<const Naming*, 2> namings = {};

  // Keys of the family's config.json in transformers. A family without `keys` uses the gpt.cpp keys.
  std::span<const ConfigKey> keys = {};
  std::span<const ConfigKey> more_keys = {};
  // Defaults of the keys that are missing in a config.json.
  ModelShape missing = {};
  double missing_dropout = -1;                   // -1: the value in `switches`
  int64_t bos_token_id = -1, eos_token_id = -1;  // -1: the family has no such token
  std::span<const FixedKey> fixed = {};
  // Functions that read and write the settings that `keys`, `more_keys` and `fixed` do not contain.
  void (*read)(const nlohmann::json& object, ModelConfig& config) = nullptr;
  void (*write)(const ModelConfig& config, nlohmann::json& object) = nullptr;
  // Returns a note for users if other programs interpret the file differently, else "".
  std::string (*note)(const nlohmann::json& object) = nullptr;
  bool no_window = false;                              // see check_no_window
  bool (*holds)(const ModelConfig& config) = nullptr;  // false: the original program rejects the config
  const char* causal_lm = nullptr;                     // class name in transformers
  const char* sequence_classification = nullptr;
  const char* double_heads = nullptr;  // class name for multiple choice
  // Chat template of the family's chat models, as in gpt chat --template.
  const char* chat_template = nullptr;

  Gguf gguf = {};
  std::span<const ForeignNames> foreign_names = {};
};

// All families, in the order in which they are tried for a file. Each family has its own source file.
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

// Definitions that several families use.
// clang-format off
inline constexpr PresetTraining kGpt1Training = {.sampling = "epoch", .batch_size = 64, .warmup = 2000,
                                                 .lr = 2.5e-4, .min_lr = 0, .weight_decay = 0.01};
// clang-format on
void set_llama_switches(ModelConfig& config);
void set_nanochat_switches(ModelConfig& config);
extern const Naming kLlamaNaming, kGgufNaming, kGgufFusedNaming;

// Returns all families: first the families in the list above, then the families that were added with
// AddFamily.
const std::vector<const Family*>& families();
// Returns the family with the given model_type, or null if there is none.
const Family* find_family(std::string_view name);
// Returns the default config of a family.
ModelConfig family_config(const Family& family);
std::vector<ConfigKey> all_keys(const Family& family);

void set_shape(ModelConfig& config, const ModelShape& shape);

// Adds a family that is not in the list above. Define an object of this type at namespace scope, so that the
// family is added before main starts.
struct AddFamily {
  explicit AddFamily(const Family& family);
};

}  // namespace gpt
