#pragma once

// Small models for tests: a list of configs that covers every option of the decoder, and models with random
// weights.

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "model/families/family.h"
#include "model/model.h"
#include "model/params.h"
#include "support/backend.h"
#include "support/isas.h"

namespace gpt::test {

// A small model config: a family and the keys that override its defaults.
struct SmallConfig {
  std::string name, family, keys;
  void (*set_layers)(std::vector<LayerConfig>&) = nullptr;  // makes the layers differ
  int64_t middle_layer = -1;                                // as in ModelConfig
};
inline std::ostream& operator<<(std::ostream& out, const SmallConfig& c) {
  return out << c.name;
}

inline ModelConfig make_config(const SmallConfig& c) {
  ModelConfig config = family_config(*find_family(c.family));
  config.vocab_size = 23;
  config.n_ctx = 12;
  config.n_layer = 2;
  config.n_head = 4;
  config.n_embd = 16;
  config.d_ff = 24;
  const std::vector<std::string> unknown = read_model_keys(nlohmann::json::parse(c.keys), config);
  if (!unknown.empty()) throw std::logic_error(c.name + ": unknown key " + unknown.front());
  config.middle_layer = c.middle_layer;
  complete(config);
  if (c.set_layers == nullptr) return config;
  config.layers = layer_configs(config);
  c.set_layers(config.layers);
  complete(config);
  return config;
}

// A toy family whose layers have sliding windows, two RoPE tables, one layer without positions, different
// widths, and scaled inputs and branches.
inline void toy_layers(std::vector<LayerConfig>& layers) {
  layers[0].window = 3;
  layers[0].rope->theta = 100;
  layers[1].rope.reset();
  layers[1].scales_input = true;
  layers[1].n_kv_head = 1;
  layers[1].act = Activation::gelu_tanh;
  layers[1].qk_norm = layers[1].qk_norm_gain = true;
  layers[2].window = 5;
  layers[2].n_head = layers[2].n_kv_head = 2;
  layers[2].head_dim = layers[2].rope->head_dim = 6;
  layers[2].d_ff = 20;
  layers[2].act = Activation::silu;
  layers[2].gated = false;
  layers[2].scales_branches = true;
  layers[3].scales_input = layers[3].scales_branches = true;
  layers[3].attention_scale = 0.3;
}

// A toy family that mixes pre-norm and post-norm layers and LayerNorm and RMSNorm. The input of its first
// layer is scaled.
inline void toy_norms(std::vector<LayerConfig>& layers) {
  layers[0].scales_input = true;
  layers[0].norm_position = NormPosition::post;
  layers[1].norm = NormKind::rms;
  layers[2].norm_position = NormPosition::post;
  layers[2].scales_branches = true;
}

// A toy family in which layers share the KV cache of earlier layers. Layer 1 has two readers. One reader has
// a different number of heads than layer 1, and one reader has a longer window.
inline void toy_shared_kv(std::vector<LayerConfig>& layers) {
  layers[0].window = 4;
  layers[1].window = 3;
  layers[1].qk_norm = layers[1].qk_norm_gain = true;
  layers[2].rope->theta = 100;
  layers[3].kv_layer = 1;
  layers[3].window = 5;
  layers[3].qk_norm = layers[3].qk_norm_gain = true;
  layers[4].kv_layer = 2;
  layers[4].scales_input = true;
  layers[5].kv_layer = 1;
  layers[5].window = 3;
  layers[5].n_head = 2;
  layers[6].kv_layer = 2;
}

// Returns one config per family, and variants so that every value of every option occurs.
// ModelGradientRegistry in grad/model_test.cpp checks this.
inline const std::vector<SmallConfig>& small_configs() {
  static const std::vector<SmallConfig> list = [] {
    std::vector<SmallConfig> all;
    for (const Family* family : families())
      all.push_back({std::string(family->name), std::string(family->name), "{}"});
    const std::vector<SmallConfig> more = {
        {"gpt2_head_bias", "gpt2", R"({"tie_embeddings": false, "head_bias": true})"},
        {"gpt2_qk_norm", "gpt2", R"({"qk_norm": true, "embd_norm": true, "final_norm": false})"},
        {"gpt2_rms", "gpt2", R"({"norm": "rms", "act": "relu", "logit_softcap": 4})"},
        {"gpt2_no_affine", "gpt2", R"({"norm_affine": false, "act": "relu2", "mlp_bias": false})"},
        {"gpt2_no_norm_bias", "gpt2", R"({"norm_bias": false, "qkv_bias": false, "n_kv_head": 2})"},
        {"gpt2_swiglu", "gpt2", R"({"act": "swiglu", "embd_norm": true})"},
        {"post_rope", "openai-gpt",
         R"({"position": "rope", "qk_norm": true, "final_norm": true, "embd_norm": true})"},
        {"post_rms", "openai-gpt", R"({"norm": "rms", "act": "swiglu", "tie_embeddings": false})"},
        {"mistral_window", "mistral", R"({"sliding_window": 5, "n_kv_head": 2})"},
        {"qwen2_window", "qwen2", R"({"sliding_window": 4})"},
        {"gpt2_window", "gpt2", R"({"sliding_window": 3})"},
        {"llama_tied_gqa", "llama", R"({"tie_embeddings": true, "n_kv_head": 2, "d_ff": 20})"},
        {"llama_mqa_biased", "llama",
         R"({"n_kv_head": 1, "qkv_bias": true, "out_bias": true, "mlp_bias": true, "head_dim": 6})"},
        {"llama_interleaved", "llama",
         R"({"rope_layout": "interleaved", "rope_theta": 100, "norm_eps": 0.01})"},
        {"llama_linear_scaling", "llama", R"({"rope_scaling": {"rope_type": "linear", "factor": 4}})"},
        {"llama_llama3_scaling", "llama",
         R"({"head_dim": 8, "rope_scaling": {"rope_type": "llama3", "factor": 8,
            "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 16}})"},
        {"nanochat_gqa", "nanochat", R"({"n_kv_head": 2, "logit_softcap": 3})"},
        {"nanochat_bf16_rope", "nanochat", R"({"rope_dtype": "bf16"})"},
        {"placeholder", "gpt2-scratch", R"({"n_layer": 0, "final_norm": false, "dropout": 0.1})"},
        {"placeholder_norms", "nanochat", R"({"n_layer": 0})"},
        {"placeholder_tied", "gpt2", R"({"n_layer": 0})"},
        {"nanochat_mqa", "nanochat-doc", R"({"n_kv_head": 1, "rope_layout": "interleaved"})"},
        {"dropout_pre", "gpt2", R"({"dropout": 0.1})"},
        {"dropout_post", "openai-gpt", R"({"dropout": 0.2})"},
        {"dropout_nanochat", "nanochat", R"({"dropout": 0.1, "n_kv_head": 2})"},
        {"dropout_attention_only", "llama", R"({"attn_dropout": 0.3, "n_kv_head": 2})"},
        {"dropout_residual_only", "gpt2", R"({"resid_dropout": 0.3})"},
        {"dropout_embedding_only", "gpt2", R"({"embd_dropout": 0.3, "embd_norm": true})"},
    };
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return list;
}

// Returns small_configs() and models whose layers differ from each other. No family can store such models in
// a file.
inline const std::vector<SmallConfig>& all_configs() {
  static const std::vector<SmallConfig> list = [] {
    std::vector<SmallConfig> all = small_configs();
    all.push_back({"toy_layers", "llama", R"({"n_layer": 4, "n_kv_head": 2})", toy_layers});
    all.push_back({"toy_norms", "gpt2", R"({"n_layer": 3})", toy_norms});
    all.push_back({"toy_middle", "gpt2", R"({"n_layer": 3})", toy_norms, 0});
    all.push_back({"toy_dropout", "llama", R"({"n_layer": 4, "n_kv_head": 2, "dropout": 0.2})", toy_layers});
    all.push_back(
        {"toy_shared_kv", "llama", R"({"n_layer": 7, "n_kv_head": 2, "qkv_bias": true})", toy_shared_kv});
    all.push_back({"toy_shared_kv_dropout", "llama", R"({"n_layer": 7, "n_kv_head": 2, "dropout": 0.2})",
                   toy_shared_kv, 6});
    return all;
  }();
  return list;
}

inline const SmallConfig& small_config(const std::string& name) {
  for (const SmallConfig& c : all_configs()) {
    if (c.name == name) return c;
  }
  throw std::logic_error("no small config " + name);
}

// Replaces characters that GoogleTest does not accept in test names.
inline std::string test_name(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

inline double get(const TensorView& v, int64_t row, int64_t col) {
  const MappedView host(v.slice_rows(row, 1).slice_cols(col, 1), Access::read);
  return v.dtype == DType::f64 ? *host->as<double>() : double{*host->as<float>()};
}

inline void set(const TensorView& v, int64_t row, int64_t col, double x) {
  const MappedView host(v.slice_rows(row, 1).slice_cols(col, 1), Access::write);
  if (v.dtype == DType::f64) {
    *host->as<double>() = x;
  } else {
    *host->as<float>() = static_cast<float>(x);
  }
}

// Returns the elements of a dense fp32 view.
inline std::vector<float> floats(const TensorView& v) {
  const MappedView host(v, Access::read);
  return {host->as<float>(), host->as<float>() + v.size()};
}

// A model with random weights that are large enough to exercise the nonlinearities. The weights are fp32
// values for either dtype, and both dtypes have the same weights.
class RandomModel {
 public:
  RandomModel(const ModelConfig& config, DType dtype, uint64_t seed = 1)
      : model(config), weights(model.table, dtype, "test weights", device()) {
    model.weights.assign(weights.views().begin(), weights.views().end());
    for (int id = 0; id < model.table.count(); ++id)
      fill(model.table[id], weights[id], seed, id);
  }

  Model model;
  ParamBuffer weights;

 private:
  static void fill(const ParamSpec& spec, const TensorView& view, uint64_t seed, int id) {
    const MappedView access(view, Access::write);
    const TensorView& w = *access;
    RandomStream random(seed, RandomSite::test, 0, static_cast<uint64_t>(id));
    const bool gain = spec.init.kind == InitRule::Kind::ones;
    double scale = 0.3;
    if (spec.shape.size() == 2 && spec.role != Role::wte && spec.role != Role::wpe) {
      scale = 1.2 / std::sqrt(static_cast<double>(spec.shape[1]));
    }
    for (int64_t r = 0; r < w.rows(); ++r) {
      for (int64_t c = 0; c < w.cols(); ++c) {
        set(w, r, c, static_cast<double>(static_cast<float>((gain ? 1 : 0) + scale * random.normal())));
      }
    }
  }
};

inline std::vector<int32_t> random_ids(int64_t n, int64_t vocab, uint64_t seed) {
  RandomStream random(seed, RandomSite::test, 1);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n; ++i)
    ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab))));
  return ids;
}

// Returns random targets, of which about one in eight is ignored.
inline std::vector<int32_t> random_targets(int64_t n, int64_t vocab, uint64_t seed) {
  std::vector<int32_t> ids = random_ids(n, vocab, seed + 1000);
  for (size_t i = 3; i < ids.size(); i += 8)
    ids[i] = -1;
  return ids;
}

inline bool same_bytes(const TensorView& a, const TensorView& b) {
  const size_t bytes = static_cast<size_t>(a.size()) * dtype_size(a.dtype);
  return a.dtype == b.dtype && a.size() == b.size() &&
         std::memcmp(MappedView(a, Access::read)->data, MappedView(b, Access::read)->data, bytes) == 0;
}

}  // namespace gpt::test
