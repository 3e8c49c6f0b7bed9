// Qwen2 (Yang et al. 2024) is Llama with biases for queries, keys and values.

#include <algorithm>

#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr ConfigKey kKeys[] = {
    {"head_dim", &ModelConfig::head_dim, Means::size},
    {"hidden_act", &ModelConfig::act, Means::act, nullptr, kGatedActs},
};

// Qwen2 uses its sliding window in layer max_window_layers and all later layers, or in the layers that
// layer_types lists.
void read_window(const json& object, ModelConfig& c) {
  bool use = false;
  int64_t window = 4096, first = 28;
  if (object.contains("use_sliding_window"))
    from_json_value("use_sliding_window", object["use_sliding_window"], use);
  const json given = object.value("sliding_window", json(window));
  if (given.is_null()) use = false;
  if (use) from_json_value("sliding_window", given, window);
  if (object.contains("max_window_layers"))
    from_json_value("max_window_layers", object["max_window_layers"], first);
  const json layers = object.value("layer_types", json());
  const int64_t rest = use ? c.n_layer - std::clamp<int64_t>(first, 0, c.n_layer) : 0;
  const int64_t sliding = layers.is_null() ? rest : sliding_layers(layers, c);
  if (sliding > 0 && (!use || window < 1)) {
    wrong_value("sliding_window",
                "a number above 0 and use_sliding_window = true, because max_window_layers or layer_types "
                "select layers with a sliding window",
                given);
  }
  set_window(layers.is_null() ? "max_window_layers" : "layer_types", sliding, window, c);
}

void read(const json& object, ModelConfig& c) {
  const auto [rope, name] = rope_object(object);
  if (rope.contains("full_attention") || rope.contains("sliding_attention"))
    fail_key(name,
             "expected the same rotary settings for all layers, found separate settings per "
             "layer type");
  read_rope(object, c);
  read_window(object, c);
}

void write(const ModelConfig& c, json& object) {
  write_rope(c, object);
  object["use_sliding_window"] = c.sliding_window > 0;
  object["sliding_window"] = c.sliding_window > 0 ? json(c.sliding_window) : json(nullptr);
  object["max_window_layers"] = 0;
}

}  // namespace

// clang-format off
constexpr ModelShape kMissing = {.vocab_size = 151936, .n_ctx = 32768, .n_layer = 32, .n_head = 32,
                                 .n_kv_head = 32, .n_embd = 4096, .d_ff = 22016};
// clang-format on

constinit const Family family::qwen2 = {
    .name = "qwen2",
    .switches =
        [](ModelConfig& c) {
          set_llama_switches(c);
          c.qkv_bias = true;
        },
    .namings = {&kLlamaNaming},
    .keys = kLlamaKeys,
    .more_keys = kKeys,
    .missing = kMissing,
    .fixed = kDecoderOnly,
    .read = read,
    .write = write,
    .causal_lm = "Qwen2ForCausalLM",
    .sequence_classification = "Qwen2ForSequenceClassification",
    .chat_template = "chatml-qwen2",
    .gguf = {"qwen2", &kGgufNaming, RopeLayout::halves, true},
};

}  // namespace gpt
