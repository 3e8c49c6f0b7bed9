#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/param_table.h"

namespace gpt {

// Parameters of one component. `per_layer` is that of layer 0; 0 outside the blocks.
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
  // Of queries with keys, and of weights with values.
  double score_flops(int64_t n_tokens) const;
  // The parts of forward_flops.
  FlopCounts flop_parts(int64_t n_tokens) const;

  // Bytes of keys and values that a cache holds per token.
  int64_t cache_bytes_per_token(int64_t element_bytes) const;
  // Bytes of activations of a training step in a type (the planner's figure); recompute: keep block inputs
  // only.
  int64_t activation_bytes(int64_t batch, int64_t n_tokens, bool recompute, DType dtype = DType::f32) const;
};

// How numbers are stored: bits, the largest finite value, bytes of one.
struct NumberFormat {
  std::string_view name;
  int sign, exponent, mantissa;
  double largest;
  int64_t bytes;
  std::string_view note;
};
// fp32, fp16, bf16 and fp8 (E4M3 of Micikevicius et al. 2022).
std::span<const NumberFormat> number_formats();

// How training with Adam keeps a parameter: bytes of each of its numbers.
struct TrainingFormat {
  std::string_view name;
  int64_t weight, gradient, master, moments;
  int64_t activation;  // bytes of one
};
// "fp32"; "autocast", which gpt train does with --dtype bf16 or fp16: fp32 weights, 16-bit activations and
// products; "mixed": 16-bit weights and gradients with an fp32 master copy (Micikevicius et al. 2018).
std::span<const TrainingFormat> training_formats();

// Bytes of what training keeps besides activations.
struct TrainingState {
  int64_t weights = 0, gradients = 0, master = 0, moments = 0;
  int64_t total() const { return weights + gradients + master + moments; }
};

inline constexpr int kZeroStages = 4;

// What each of `devices` holds with ZeRO (Rajbhandari et al. 2020): stage 0 a copy of everything; 1 shares
// out master weights and moments, 2 gradients too, 3 weights too. Shares are rounded up to parameters.
TrainingState training_state(int64_t parameters, const TrainingFormat& format, int stage = 0,
                             int64_t devices = 1);

}  // namespace gpt
