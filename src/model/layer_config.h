#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/ops.h"

namespace gpt {

enum class NormPosition : uint8_t { pre, post };
enum class RopeLayout : uint8_t { halves, interleaved };
enum class RopeDType : uint8_t { fp32, bf16 };

// Scaling of the rotary frequencies for long contexts.
struct RopeScaling {
  enum class Type : uint8_t { none, linear, llama3 };
  Type type = Type::none;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_n_ctx = 0;
  bool operator==(const RopeScaling&) const = default;
};

// Settings of a rotary position embedding (RoPE).
struct RopeConfig {
  int64_t head_dim;
  double theta = 10000;
  RopeScaling scaling = {};
  RopeDType dtype = RopeDType::fp32;  // dtype of cos and sin
  RopeLayout layout = RopeLayout::halves;
  int64_t sign = 1;  // +1 Llama, -1 nanochat
  bool operator==(const RopeConfig&) const = default;
};

// The config of one layer (transformer block). `Block` and its modules only read this config, never
// ModelConfig.
struct LayerConfig {
  // These values are equal in all layers of a model. layer_configs copies them from ModelConfig.
  int64_t n_embd;
  int64_t n_ctx;
  double attn_dropout = 0;
  double resid_dropout = 0;

  // attention
  int64_t n_head;
  int64_t n_kv_head;
  int64_t head_dim;
  // Index of an earlier layer whose keys and values this layer reads. This layer then only projects queries.
  // The earlier layer must own its keys and values and have the same n_kv_head and head_dim. -1: this layer
  // owns its keys and values.
  int64_t kv_layer = -1;
  bool kv_shared = false;  // true if later layers read its keys and values (set by layer_configs)
  int64_t window = 0;      // maximum keys per query, including its own; 0: all earlier keys
  std::optional<RopeConfig> rope = {};         // absent: no rotary embedding
  bool qk_norm = false;                        // RMS norm of each query head and key head
  bool qk_norm_gain = false;                   // true if qk_norm has a learned gain, which all heads share
  std::optional<double> attention_scale = {};  // factor of the attention scores; absent: 1/sqrt(head_dim)

  // Number of fp32 values per sequence that inference stores in addition to keys and values (KvCache::state).
  int64_t slot_state = 0;

  // MLP
  int64_t d_ff;
  Activation act = Activation::gelu_tanh;
  bool gated = false;  // true: act(gate) * up; false: act(up)

  // norms
  NormKind norm = NormKind::layer;
  double norm_eps = 1e-5;
  bool norm_affine = true;
  bool norm_bias = true;
  NormPosition norm_position = NormPosition::pre;

  // Learned scalars of the residual stream
  bool scales_input = false;  // true: the layer input is input_scale * x + x0_scale * x0; x0 is the embedding
  bool scales_branches = false;  // true: outputs of attention and MLP are scaled before they are added

  bool owns_kv() const { return kv_layer < 0; }
  int64_t q_dim() const { return n_head * head_dim; }
  int64_t kv_dim() const { return n_kv_head * head_dim; }
  // The number of key/value heads that this layer computes itself (not read from another layer), and the
  // widths of its projections.
  int64_t projected_kv_heads() const { return owns_kv() ? n_kv_head : 0; }
  int64_t qk_dim() const { return q_dim() + projected_kv_heads() * head_dim; }
  int64_t qkv_dim() const { return qk_dim() + projected_kv_heads() * head_dim; }
  bool operator==(const LayerConfig&) const = default;
};

// Returns the index of the layer whose keys and values are read by layer `layer`.
inline size_t kv_owner(const std::vector<LayerConfig>& layers, size_t layer) {
  return layers[layer].owns_kv() ? layer : static_cast<size_t>(layers[layer].kv_layer);
}

// Returns the distinct rotary settings of a model's layers.
inline std::vector<RopeConfig> distinct_ropes(const std::vector<LayerConfig>& layers) {
  std::vector<RopeConfig> ropes;
  for (const LayerConfig& layer : layers) {
    if (layer.rope && std::ranges::find(ropes, *layer.rope) == ropes.end()) ropes.push_back(*layer.rope);
  }
  return ropes;
}

// The distinct configs of a model's layers, in the order of first use, and the index of each layer's config.
struct LayerKinds {
  explicit LayerKinds(const std::vector<LayerConfig>& layers) {
    for (const LayerConfig& layer : layers) {
      const auto known = std::ranges::find(configs, layer);
      of_layer.push_back(static_cast<size_t>(known - configs.begin()));
      if (known == configs.end()) configs.push_back(layer);
    }
  }
  std::vector<LayerConfig> configs;
  std::vector<size_t> of_layer;
};

}  // namespace gpt
