#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/param_table.h"

namespace gpt {

// Parameters of one component. `per_layer` is that of layer 0, all layers being equal; 0 outside the blocks.
struct ComponentCount {
  Component component;
  std::string key;    // "token_embedding"
  std::string label;  // "token embedding"
  int64_t total = 0;
  int64_t per_layer = 0;
};

// What can be said about a model from its config alone; nothing of the model's size is allocated.
struct ModelCounts {
  explicit ModelCounts(const ModelConfig& config);  // a completed config

  ModelConfig config;
  std::vector<ComponentCount> components;  // in the order of the forward pass, absent ones with 0
  int64_t total = 0;
  int64_t per_layer = 0;
  int64_t layers = 0;         // of all blocks
  int64_t rule_of_thumb = 0;  // 12 L C^2, the usual estimate of the blocks
  int64_t lookup_only =
      0;  // tables that are read, not multiplied: positions, and an embedding that is not the head

  // Floating-point operations per token at context T: 2 (N - N_lookup) + 4 L H D T forward, three times that
  // for training (Kaplan et al. 2020, with attention as nanochat counts it).
  double forward_flops(int64_t n_tokens) const;
  double training_flops(int64_t n_tokens) const { return 3 * forward_flops(n_tokens); }

  // Bytes of keys and values that a cache holds per token.
  int64_t cache_bytes_per_token(int64_t element_bytes) const;
  // Bytes of activations of a training step in fp32 (the planner's figure); recompute: keep block inputs
  // only.
  int64_t activation_bytes(int64_t batch, int64_t n_tokens, bool recompute) const;
};

}  // namespace gpt
