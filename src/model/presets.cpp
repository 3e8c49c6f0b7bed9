#include "model/presets.h"

#include <fmt/format.h>
#include <charconv>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/suggest.h"

namespace gpt {
namespace {

struct Entry {
  std::string name;
  std::string keys;
};

// What tells one family from another. Unset keys keep the defaults of ModelConfig, which are GPT-2's.
const std::vector<Entry>& families() {
  static const std::vector<Entry> list = {
      {"gpt.cpp", "{}"},
      // Radford et al. 2019
      {"gpt2", R"({"residual_init_scale": true})"},
      // Radford et al. 2018: post-norm, no final norm
      {"openai-gpt", R"({"norm_position": "post", "final_norm": false})"},
      {"gpt1-preln", "{}"},
      {"gpt2-scratch", R"({"qkv_bias": false, "tie_embeddings": false, "init": "torch"})"},
      {"mini-gpt", R"({"qkv_bias": false, "out_bias": false, "act": "gelu"})"},
      // Touvron et al. 2023
      {"llama", R"({"norm": "rms", "position": "rope", "act": "swiglu", "qkv_bias": false, "out_bias": false,
                    "mlp_bias": false, "tie_embeddings": false, "norm_eps": 1e-6})"},
      // Yang et al. 2024; Jiang et al. 2023
      {"qwen2", R"({"norm": "rms", "position": "rope", "act": "swiglu", "qkv_bias": true, "out_bias": false,
                    "mlp_bias": false, "tie_embeddings": false, "norm_eps": 1e-6})"},
      {"mistral",
       R"({"norm": "rms", "position": "rope", "act": "swiglu", "qkv_bias": false, "out_bias": false,
                      "mlp_bias": false, "tie_embeddings": false, "norm_eps": 1e-6, "sliding_window": 4096})"},
      {"nanochat",
       R"({"norm": "rms", "norm_affine": false, "norm_eps": 1e-6, "embd_norm": true, "qk_norm": true,
                       "position": "rope", "rope_sign": -1, "act": "relu2", "qkv_bias": false, "out_bias": false,
                       "mlp_bias": false, "tie_embeddings": false, "logit_softcap": 15, "init": "nanochat"})"},
      {"nanochat-notebook", R"({"norm": "rms", "norm_affine": false, "norm_eps": 1.1920928955078125e-07,
                       "embd_norm": true, "qk_norm": true, "position": "rope", "rope_sign": -1, "act": "relu2",
                       "qkv_bias": false, "out_bias": false, "mlp_bias": false, "tie_embeddings": false,
                       "init": "torch"})"},
      {"nanochat-doc", R"({"norm": "rms", "norm_affine": false, "norm_eps": 1.1920928955078125e-07,
                       "embd_norm": true, "qk_norm": true, "position": "rope", "rope_sign": 1, "act": "relu2",
                       "qkv_bias": false, "out_bias": false, "mlp_bias": false, "tie_embeddings": false,
                       "logit_softcap": 15, "init": "nanochat"})"},
  };
  return list;
}

struct Preset {
  std::string name;
  std::string family;
  std::string keys;
};

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list = {
      {"mini-gpt", "mini-gpt",
       R"({"vocab_size": 256, "n_ctx": 256, "n_layer": 6, "n_head": 6, "n_embd": 384, "dropout": 0.1,
           "batch_size": 64, "lr": 3e-4, "steps": 5000, "warmup": 100, "weight_decay": 0.1, "clip_norm": 1.0,
           "beta2": 0.95, "eval_every": 100, "eval_batches": 50, "eval_train": true, "sample_every": 500})"},
      {"gpt1", "openai-gpt",
       R"({"vocab_size": 40478, "n_ctx": 512, "n_layer": 12, "n_head": 12, "n_embd": 768,
           "dropout": 0.1, "batch_size": 64, "lr": 2.5e-4, "min_lr": 0, "warmup": 2000, "weight_decay": 0.01,
           "sampling": "epoch"})"},
      {"gpt1-preln", "gpt1-preln",
       R"({"vocab_size": 40478, "n_ctx": 512, "n_layer": 12, "n_head": 12, "n_embd": 768,
           "dropout": 0.1, "batch_size": 64, "lr": 2.5e-4, "min_lr": 0, "warmup": 2000, "weight_decay": 0.01,
           "sampling": "epoch"})"},
      {"gpt2", "gpt2", R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768})"},
      {"gpt2-medium", "gpt2",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 24, "n_head": 16, "n_embd": 1024})"},
      {"gpt2-large", "gpt2",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 36, "n_head": 20, "n_embd": 1280})"},
      {"gpt2-xl", "gpt2",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 48, "n_head": 25, "n_embd": 1600})"},
      {"gpt2-scratch", "gpt2-scratch",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768, "dropout": 0.1})"},
      {"nanochat", "nanochat-notebook",
       R"({"vocab_size": 50304, "n_ctx": 1024, "n_layer": 12, "n_head": 6, "n_kv_head": 6, "n_embd": 768})"},
      // the write-up's code; the shape that its text states, 20 blocks of 512 with 6 heads, does not exist
      {"nanochat-doc", "nanochat-doc",
       R"({"vocab_size": 50304, "n_ctx": 1024, "n_layer": 12, "n_head": 6, "n_kv_head": 6, "n_embd": 768})"},
      {"nanochat-demo", "nanochat-notebook",
       R"({"vocab_size": 512, "n_ctx": 128, "n_layer": 4, "n_head": 4, "n_kv_head": 4, "n_embd": 256})"},
      {"llama3-8b", "llama",
       R"({"vocab_size": 128256, "n_ctx": 131072, "n_layer": 32, "n_head": 32, "n_kv_head": 8, "n_embd": 4096,
           "d_ff": 14336, "norm_eps": 1e-5, "rope_theta": 500000,
           "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                            "original_max_position_embeddings": 8192}})"},
      // shapes for measuring: a small model, and one with the widths of Llama 3.2 1B
      {"llama-small", "llama",
       R"({"vocab_size": 50257, "n_ctx": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768, "d_ff": 2048})"},
      {"llama-1b", "llama",
       R"({"vocab_size": 50257, "n_ctx": 2048, "n_layer": 16, "n_head": 32, "n_kv_head": 8, "n_embd": 2048,
           "d_ff": 8192, "norm_eps": 1e-5, "rope_theta": 500000})"},
      {"gpt3-175b", "gpt2",
       R"({"vocab_size": 50257, "n_ctx": 2048, "n_layer": 96, "n_head": 96, "n_embd": 12288})"},
      // nanoGPT's small character model for a CPU: no biases, exact GELU
      {"nanogpt-cpu", "gpt.cpp",
       R"({"n_ctx": 64, "n_layer": 4, "n_head": 4, "n_embd": 128, "act": "gelu", "norm_bias": false,
           "qkv_bias": false, "out_bias": false, "mlp_bias": false, "residual_init_scale": true, "dropout": 0,
           "tokenizer": "char", "batch_size": 12, "steps": 2000, "lr": 1e-3, "min_lr": 1e-4, "warmup": 100,
           "beta2": 0.99, "weight_decay": 0.1, "clip_norm": 1.0, "eval_every": 250})"},
      // the demo: learns the built-in tales in about a minute on two cores
      {"tiny", "llama",
       R"({"vocab_size": 256, "n_ctx": 192, "n_layer": 4, "n_head": 4, "n_kv_head": 2, "n_embd": 128, "d_ff": 352,
           "tie_embeddings": true, "residual_init_scale": true, "dropout": 0, "tokenizer": "byte", "batch_size": 16,
           "steps": 750, "lr": 4e-3, "warmup": 50, "beta2": 0.99, "weight_decay": 0.1, "eval_every": 150, "eval_batches": 10,
           "sample_every": 375})"},
  };
  return list;
}

struct Purpose {
  const char *name, *text;
};

constexpr Purpose kPurposes[] = {
    {"tiny", "a first model: learns the tales in about a minute"},
    {"nanogpt-cpu", "a small text in minutes, by characters (nanoGPT's)"},
    {"nanochat-demo", "nanochat's layers at a size for any machine"},
    {"mini-gpt", "a book in hours; the Mini-GPT write-up's model"},
    {"gpt1", "GPT-1 of 2018: norms behind the layers"},
    {"gpt1-preln", "GPT-1 with norms before the layers"},
    {"gpt2", "GPT-2 of 2019, the smallest"},
    {"gpt2-medium", "GPT-2, 24 blocks"},
    {"gpt2-large", "GPT-2, 36 blocks"},
    {"gpt2-xl", "GPT-2, 48 blocks"},
    {"gpt2-scratch", "GPT-2 from scratch: untied head, no q, k, v biases"},
    {"nanochat", "nanochat, the notebook's model"},
    {"nanochat-doc", "nanochat, the document's model"},
    {"llama-small", "for measuring: Llama's layers in GPT-2's size"},
    {"llama-1b", "for measuring: the widths of Llama 3.2 1B"},
    {"llama3-8b", "Llama 3.1 8B, to count and plan with"},
    {"gpt3-175b", "GPT-3 of 2020, to count and plan with"},
};

// nanochat-dN: depth sets everything else (width 64 N, heads of 128).
bool nanochat_depth(const std::string& name, int& depth) {
  const std::string prefix = "nanochat-d";
  if (name.rfind(prefix, 0) != 0) return false;
  const char* begin = name.data() + prefix.size();
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, depth);
  return error == std::errc() && stop == end && depth >= 4 && depth <= 32 && depth % 2 == 0;
}

nlohmann::json with_family(const std::string& family, const std::string& keys) {
  nlohmann::json out = nlohmann::json::parse(*family_keys(family));
  out.update(nlohmann::json::parse(keys));
  return out;
}

}  // namespace

const std::string* family_keys(const std::string& model_type) {
  for (const Entry& family : families()) {
    if (family.name == model_type) return &family.keys;
  }
  return nullptr;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Entry& family : families())
    names.push_back(family.name);
  return names;
}

bool is_preset(const std::string& name) {
  int depth = 0;
  if (nanochat_depth(name, depth)) return true;
  for (const Preset& p : presets()) {
    if (p.name == name) return true;
  }
  return false;
}

nlohmann::json preset(const std::string& name) {
  for (const Preset& p : presets()) {
    if (p.name == name) return with_family(p.family, p.keys);
  }
  int depth = 0;
  if (nanochat_depth(name, depth)) {
    nlohmann::json out = with_family("nanochat", R"({"vocab_size": 65536, "n_ctx": 2048})");
    out["norm_eps"] = 1.1920928955078125e-07;
    out["n_layer"] = depth;
    out["n_embd"] = 64 * depth;
    out["n_head"] = out["n_kv_head"] = depth / 2;
    return out;
  }
  fail_usage("unknown preset \"{}\"{} (known: {})", name, did_you_mean(name, preset_names()),
             fmt::join(preset_names(), ", "));
}

std::string preset_purpose(const std::string& name) {
  for (const Purpose& p : kPurposes) {
    if (name == p.name) return p.text;
  }
  int depth = 0;
  if (nanochat_depth(name, depth))
    return fmt::format("nanochat of depth {}, which sets width and heads", depth);
  preset(name);  // throws for an unknown one
  return "";
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& p : presets())
    names.push_back(p.name);
  for (int depth = 4; depth <= 32; depth += 2)
    names.push_back("nanochat-d" + std::to_string(depth));
  return names;
}

}  // namespace gpt
