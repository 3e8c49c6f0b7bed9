#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/param_table.h"

namespace gpt {

// The parameter count of a component. `per_layer` is the count in layer 0, or 0 for a component outside the
// layers.
struct ComponentCount {
  Component component;
  std::string key;    // for example "token_embedding"
  std::string label;  // for example "token embedding"
  int64_t total = 0;
  int64_t per_layer = 0;
};

// Floating-point operations of a forward pass per token, by component.
struct FlopCounts {
  double attention = 0;  // projections of queries, keys, values and outputs
  double scores = 0;     // matmuls of queries and keys, and of attention weights and values
  double mlp = 0;
  double norms = 0;
  double head = 0;
  double total() const { return attention + scores + mlp + norms + head; }
};

// Parameter counts, operation counts and memory sizes of a model. All values are computed from the config
// alone, without allocating memory for the model.
struct ModelCounts {
  explicit ModelCounts(const ModelConfig& config);  // requires a completed config

  ModelConfig config;
  std::vector<ComponentCount>
      components;  // in the order of the forward pass; 0 for components that the model lacks
  int64_t total = 0;
  int64_t per_layer = 0;
  int64_t layers = 0;         // parameters of all layers
  int64_t rule_of_thumb = 0;  // 12 L C^2, the usual estimate of the parameters in all layers
  // Number of parameters in lookup tables that no matmul reads: the position embedding, and the token
  // embedding if it is not tied.
  int64_t lookup_only = 0;

  // Returns the floating-point operations per token at context length T: 2 (N - N_lookup) + 4 L H D T for a
  // forward pass, and three times as many for training (Kaplan et al. 2020, with attention counted as in
  // nanochat). T is limited to the sliding window.
  double forward_flops(int64_t n_tokens) const;
  double training_flops(int64_t n_tokens) const { return 3 * forward_flops(n_tokens); }
  // Returns the operations for decoding one token after `cached` other tokens. The token attends to all
  // cached tokens and to itself.
  double decode_flops(int64_t cached) const { return forward_flops(cached + 1); }
  // Returns the operations of the two matmuls in attention: queries times keys, and attention weights times
  // values.
  double score_flops(int64_t n_tokens) const;
  // Returns forward_flops, split by component.
  FlopCounts flop_parts(int64_t n_tokens) const;

  // Returns the number of bytes per token in the KV cache.
  int64_t cache_bytes_per_token(int64_t element_bytes) const;
  // Returns the size in bytes of the activations of a training step with this dtype, as computed by the
  // planner. recompute: keep only the inputs of layers.
  int64_t activation_bytes(int64_t batch, int64_t n_tokens, bool recompute, DType dtype = DType::f32) const;
};

// A number format: its sign, exponent and mantissa bits, its largest finite value, and its size in bytes.
struct NumberFormat {
  std::string_view name;
  int sign, exponent, mantissa;
  double largest;
  int64_t bytes;
  std::string_view note;
};
// Returns the formats fp32, fp16, bf16 and fp8 (E4M3 of Micikevicius et al. 2022).
std::span<const NumberFormat> number_formats();

// A combination of dtypes for training with Adam. All sizes except `activation` are in bytes per parameter.
struct TrainingFormat {
  std::string_view name;
  int64_t weight, gradient, master, moments;
  int64_t activation;  // bytes per activation
};
// Returns the formats "fp32", "autocast" and "mixed". "autocast" has fp32 weights with 16-bit activations and
// matmuls, as in gpt train with --dtype bf16 or fp16. "mixed" has 16-bit weights and gradients with an fp32
// master copy (Micikevicius et al. 2018).
std::span<const TrainingFormat> training_formats();

// The memory that training needs in addition to activations, in bytes.
struct TrainingState {
  int64_t weights = 0, gradients = 0, master = 0, moments = 0;
  int64_t total() const { return weights + gradients + master + moments; }
};

inline constexpr int kZeroStages = 4;

// Returns the memory per device if ZeRO shards the training state over `devices` devices (Rajbhandari et al.
// 2020). Stage 0 stores a full copy on every device. Stage 1 shards master weights and moments, stage 2 also
// gradients, and stage 3 also weights. Shards are rounded up to whole parameters.
TrainingState training_state(int64_t parameters, const TrainingFormat& format, int stage = 0,
                             int64_t devices = 1);

}  // namespace gpt
