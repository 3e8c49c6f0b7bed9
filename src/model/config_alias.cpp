#include "model/config_alias.h"

#include "base/printable.h"
#include "model/families/family.h"
#include "model/json_value.h"

namespace gpt {
namespace {

using nlohmann::json;

struct Alias {
  const char* theirs;
  const char* ours;
};

// Besides those in the config.json of the families (ConfigKey).
constexpr Alias kAliases[] = {
    // shape
    {"sequence_len", "n_ctx"},
    {"context_length", "n_ctx"},
    {"max_seq_len", "n_ctx"},
    {"block_size", "n_ctx"},
    {"emb_dim", "n_embd"},
    {"d_model", "n_embd"},
    {"n_layers", "n_layer"},
    {"n_heads", "n_head"},
    {"n_kv_heads", "n_kv_head"},
    // switches
    {"rope_rotation", "rope_sign"},
    {"dropout_rate", "dropout"},
    // training
    {"learning_rate", "lr"},
    {"max_iters", "steps"},
    {"warmup_iters", "warmup"},
    {"grad_clip", "clip_norm"},
};

// Names of shape that tell whose config it is, the surest first, and what says the rest.
struct Spelling {
  const char* key;
  const char* whose;
  const char* family;
};

constexpr const char* kScratch = "the chapter \"GPT-2 from scratch\"";
constexpr const char* kUnit = "the Mini-GPT course unit";
constexpr const char* kSeveral = "--preset gpt2-scratch or --preset mini-gpt";
constexpr const char* kModelType = "a \"model_type\" in the file";

constexpr Spelling kSpellings[] = {
    {"emb_dim", kScratch, "--preset gpt2-scratch"},
    {"context_length", kScratch, "--preset gpt2-scratch"},
    {"d_model", kUnit, "--preset mini-gpt"},
    {"max_seq_len", kUnit, "--preset mini-gpt"},
    {"sequence_len", "nanochat",
     "--preset nanochat (the notebook), nanochat-doc (the document) or nanochat-d20 (as released)"},
    {"n_positions", "GPT-1 and GPT-2", "--preset gpt1-preln (the notebook), gpt1 or gpt2"},
    {"n_inner", "GPT-1 and GPT-2", "--preset gpt1-preln (the notebook), gpt1 or gpt2"},
    {"block_size", "nanoGPT", "--preset nanogpt-cpu or gpt2"},
    {"n_layers", "several projects", kSeveral},
    {"n_heads", "several projects", kSeveral},
    {"n_kv_heads", "several projects", kSeveral},
    {"hidden_size", "transformers", kModelType},
    {"num_hidden_layers", "transformers", kModelType},
    {"num_attention_heads", "transformers", kModelType},
    {"num_key_value_heads", "transformers", kModelType},
    {"intermediate_size", "transformers", kModelType},
    {"max_position_embeddings", "transformers", kModelType},
};

void put(json& out, const std::string& key, const json& value, const std::string& from) {
  if (out.contains(key) && out[key] != value) {
    fail_usage("config key {}: {} says {}, but another name of it says {}; keep one", printable(key), from,
               printable(value.dump()), printable(out[key].dump()));
  }
  out[key] = value;
}

// transformers 5 writes rope_parameters, older files rope_theta and rope_scaling.
void put_rope_parameters(json& out, const json& value) {
  if (value.is_null()) return;
  if (!value.is_object()) wrong_value("rope_parameters", "an object", value);
  if (value.contains("rope_theta")) put(out, "rope_theta", value["rope_theta"], "rope_parameters");
  RopeScaling scaling;
  from_json_value("rope_parameters", value, scaling);
  put(out, "rope_scaling", to_json_value(scaling), "rope_parameters");
}

json translate_value(const std::string& key, const json& value) {
  if (key == "act") {
    if (value == "relu_squared") return "relu2";
    for (const std::span<const ActName> names : {std::span<const ActName>(kPlainActs), {kGatedActs}}) {
      for (const ActName& name : names) {
        if (value == name.theirs) return to_json_value(name.ours);
      }
    }
  }
  if (value.is_null() && key == "logit_softcap") return 0;
  if (value.is_null() &&
      (key == "d_ff" || key == "n_kv_head" || key == "head_dim" || key == "sliding_window")) {
    return 0;
  }
  return value;
}

}  // namespace

std::string config_key_of(const std::string& theirs) {
  for (const Alias& a : kAliases) {
    if (theirs == a.theirs) return a.ours;
  }
  if (theirs == "attention_bias") return "";  // two keys of ours
  for (const Family* family : families()) {
    for (const ConfigKey& key : all_keys(*family)) {
      const bool same = theirs == key.theirs || (key.other_name != nullptr && theirs == key.other_name);
      if (same && theirs != key.ours) return key.ours;
    }
  }
  return "";
}

json translate_aliases(const json& object) {
  json out = json::object();
  for (const auto& item : object.items()) {  // clang 14 lets no lambda capture structured bindings
    const std::string& key = item.key();
    const auto& value = item.value();
    const std::string ours = config_key_of(key);
    if (key == "afn" && value == "gelu") {
      put(out, "act", "gelu_tanh", key);  // GPT-1's, whose "gelu" is the tanh form
    } else if (!ours.empty()) {
      put(out, ours, translate_value(ours, value), key);
    } else if (key == "rope_parameters") {
      put_rope_parameters(out, value);
    } else if (key == "attention_bias") {
      put(out, "qkv_bias", value, key);
      put(out, "out_bias", value, key);
    } else {
      put(out, key, translate_value(key, value), key);
    }
  }
  return out;
}

void require_family(const json& object, const std::string& what) {
  if (object.contains("model_type")) return;
  for (const Spelling& s : kSpellings) {
    if (!object.contains(s.key)) continue;
    fail_usage(
        "{}: \"{}\" is a name of {}, and the file leaves open which norms, biases and other switches go with "
        "it; give them with {}",
        what, s.key, s.whose, s.family);
  }
}

}  // namespace gpt
