#include "model/model_counts.h"

#include <algorithm>

#include "base/error.h"
#include "base/ranges.h"
#include "model/training_graph.h"

namespace gpt {

ModelCounts::ModelCounts(const ModelConfig& c) : config(c) {
  for (const char* key : {"token_embedding", "position_embedding", "attention", "mlp", "norm", "final_norm",
                          "head", "residual"}) {
    const auto component = static_cast<Component>(components.size());
    components.push_back({component, key, component_label(component)});
  }
  const ParamTable table(c);
  for (const ParamSpec& spec : table.specs()) {
    ComponentCount& count = components[static_cast<size_t>(spec.component)];
    count.total += spec.size();
    if (spec.layer == 0) count.per_layer += spec.size();
    if (spec.layer >= 0) layers += spec.size();
    if (spec.is_lookup_table) lookup_only += spec.size();
  }
  if (components.back().total == 0) components.pop_back();
  per_layer = sum_of(components, &ComponentCount::per_layer);
  total = table.total();
  rule_of_thumb = 12 * c.n_layer * c.n_embd * c.n_embd;
}

double ModelCounts::score_flops(int64_t n_tokens) const {
  double flops = 0;
  for (const LayerConfig& layer : layer_configs(config)) {
    const int64_t keys = layer.window > 0 ? std::min(n_tokens, layer.window) : n_tokens;
    flops += 4.0 * static_cast<double>(layer.q_dim()) * static_cast<double>(keys);
  }
  return flops;
}

double ModelCounts::forward_flops(int64_t n_tokens) const {
  return 2.0 * static_cast<double>(total - lookup_only) + score_flops(n_tokens);
}

FlopCounts ModelCounts::flop_parts(int64_t n_tokens) const {
  FlopCounts parts;
  for (const ComponentCount& c : components) {
    const double flops = 2.0 * static_cast<double>(c.total);
    switch (c.component) {
      case Component::token_embedding:
        if (config.tie_embeddings) parts.head += flops;
        break;
      case Component::position_embedding:
      case Component::residual:
      case Component::objective:
        break;
      case Component::attention:
        parts.attention += flops;
        break;
      case Component::mlp:
        parts.mlp += flops;
        break;
      case Component::norm:
      case Component::final_norm:
        parts.norms += flops;
        break;
      case Component::head:
        parts.head += flops;
        break;
    }
  }
  parts.scores = score_flops(n_tokens);
  return parts;
}

int64_t ModelCounts::cache_bytes_per_token(int64_t element_bytes) const {
  int64_t elements = 0;
  for (const LayerConfig& layer : layer_configs(config))
    elements += 2 * layer.projected_kv_heads() * layer.head_dim;
  return elements * element_bytes;
}

int64_t ModelCounts::activation_bytes(int64_t batch, int64_t n_tokens, bool recompute, DType dtype) const {
  return TrainingGraph::planned_activations(config, batch, n_tokens,
                                            {.recompute = recompute, .dtype = dtype});
}

std::span<const NumberFormat> number_formats() {
  static constexpr NumberFormat list[] = {
      {"fp32", 1, 8, 23, 3.4028234663852886e38, 4, ""},
      {"fp16", 1, 5, 10, 65504, 2, "small gradients underflow without loss scaling"},
      {"bf16", 1, 8, 7, 3.3895313892515355e38, 2, "same range as fp32"},
      {"fp8", 1, 4, 3, 448, 1, "experimental"},
  };
  return list;
}

std::span<const TrainingFormat> training_formats() {
  static constexpr TrainingFormat list[] = {
      {"fp32", 4, 4, 0, 8, 4}, {"autocast", 4, 4, 0, 8, 2}, {"mixed", 2, 2, 4, 8, 2}};
  return list;
}

TrainingState training_state(int64_t parameters, const TrainingFormat& format, int stage, int64_t devices) {
  GPT_ASSERT(stage >= 0 && stage < kZeroStages && devices >= 1);
  const int64_t share = parameters / devices + (parameters % devices != 0 ? 1 : 0);
  const auto held = [&](int from_stage) { return stage >= from_stage ? share : parameters; };
  return {.weights = format.weight * held(3),
          .gradients = format.gradient * held(2),
          .master = format.master * held(1),
          .moments = format.moments * held(1)};
}

}  // namespace gpt
