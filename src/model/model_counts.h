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

// Floating-point operations of a forward pass per token, by what they are spent on.
struct FlopCounts {
  double attention = 0;  // projections
  double scores = 0;     // products of queries with keys, and of weights with values
  double mlp = 0;
  double norms = 0;
  double head = 0;
  double total() const { return attention + scores + mlp + norms + head; }
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
  // for training (Kaplan et al. 2020, with attention as nanochat counts it); T no more than the sliding
  // window.
  double forward_flops(int64_t n_tokens) const;
  double training_flops(int64_t n_tokens) const { return 3 * forward_flops(n_tokens); }
  // Of one token that is decoded after `cached` others: it attends to those and itself.
  double decode_flops(int64_t cached) const { return forward_flops(cached + 1); }
  // Keys that a token sees at context T.
  int64_t visible_keys(int64_t n_tokens) const;
  // The parts of forward_flops.
  FlopCounts flop_parts(int64_t n_tokens) const;

  // Bytes of keys and values that a cache holds per token.
  int64_t cache_bytes_per_token(int64_t element_bytes) const;
  // Bytes of activations of a training step in a type (the planner's figure); recompute: keep block inputs
  // only.
  int64_t activation_bytes(int64_t batch, int64_t n_tokens, bool recompute, DType dtype = DType::f32) const;
};

}  // namespace gpt
