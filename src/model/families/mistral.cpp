// Mistral (Jiang et al. 2023) is Llama with a sliding window in all layers. Ministral has a sliding window
// only in the layers that its config lists.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr ConfigKey kKeys[] = {
    {"head_dim", &ModelConfig::head_dim, Means::derived_or_zero},
    {"hidden_act", &ModelConfig::act, Means::act, nullptr, kGatedActs},
    {"sliding_window", &ModelConfig::sliding_window, Means::derived},
};

// A Ministral config lists the layers that have a sliding window. Without such a list, all layers have a
// sliding window.
void read_ministral(const json& object, ModelConfig& c) {
  read_rope(object, c);
  const json layers = object.value("layer_types", json());
  const int64_t sliding = layers.is_null() ? c.n_layer : sliding_layers(layers, c);
  if (c.sliding_window == 0)
    wrong_value("sliding_window", "a number above 0, because Ministral uses a sliding window", nullptr);
  set_window("layer_types", sliding, c.sliding_window, c);
}

bool is_ministral_class(const json& object) {
  const json classes = object.value("architectures", json());
  return classes.is_array() && !classes.empty() && classes[0].is_string() &&
         classes[0].get_ref<const std::string&>().starts_with("Ministral");
}

// Mistral in transformers has a sliding window in all layers. It validates layer_types but does not use it.
// AutoModel of transformers loads a "mistral" file with layer_types as a Ministral. gpt.cpp loads such a file
// as a Ministral only if the class name in the file is a Ministral class.
void read_mistral(const json& object, ModelConfig& c) {
  if (is_ministral_class(object)) return read_ministral(object, c);
  read_rope(object, c);
  if (c.sliding_window == 0) return check_no_window(object, c);
  const json layers = object.value("layer_types", json());
  if (!layers.is_null()) sliding_layers(layers, c);
}

std::string mistral_note(const json& object) {
  const json layers = object.value("layer_types", json()), window = object.value("sliding_window", json());
  const bool differs = layers.is_array() && std::ranges::count(layers, json("full_attention")) > 0;
  if (!differs || !window.is_number() || is_ministral_class(object)) return "";
  return fmt::format(
      "the sliding window of {} tokens is used in all layers, because MistralForCausalLM ignores "
      "layer_types. AutoModel of transformers loads this file as a Ministral, which uses layer_types; set "
      "\"model_type\": \"ministral\" to do the same in gpt.cpp",
      window.dump());
}

void set_mistral_switches(ModelConfig& c) {
  set_llama_switches(c);
  c.sliding_window = 4096;
}

// clang-format off
constexpr ModelShape kMissing = {.vocab_size = 32000, .n_ctx = 131072, .n_layer = 32, .n_head = 32,
                                 .n_kv_head = 8, .n_embd = 4096, .d_ff = 14336};
// clang-format on

}  // namespace

constinit const Family family::mistral = {
    .name = "mistral",
    .switches = set_mistral_switches,
    .namings = {&kLlamaNaming},
    .keys = kLlamaKeys,
    .more_keys = kKeys,
    .missing = kMissing,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .fixed = kDecoderOnly,
    .read = read_mistral,
    .write = write_rope,
    .note = mistral_note,
    .causal_lm = "MistralForCausalLM",
    .sequence_classification = "MistralForSequenceClassification",
};

constexpr Family kMinistral = {
    .name = "ministral",
    .switches = set_mistral_switches,
    .namings = {&kLlamaNaming},
    .keys = kLlamaKeys,
    .more_keys = kKeys,
    .missing = kMissing,
    .bos_token_id = 1,
    .eos_token_id = 2,
    .fixed = kDecoderOnly,
    .read = read_ministral,
    .write = write_rope,
    .causal_lm = "MinistralForCausalLM",
    .sequence_classification = "MinistralForSequenceClassification",
};

// Ministral is added after all families in the list. A model that both families can express is therefore
// written as a Mistral.
const AddFamily kAddMinistral(kMinistral);

}  // namespace gpt
