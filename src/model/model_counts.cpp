#include "model/model_counts.h"

#include <algorithm>

#include "model/training_graph.h"

namespace gpt {

ModelCounts::ModelCounts(const ModelConfig& c) : config(c) {
  components = {{Component::token_embedding, "token_embedding", "token embedding"},
                {Component::position_embedding, "position_embedding", "position embedding"},
                {Component::attention, "attention", "attention"},
                {Component::mlp, "mlp", "MLP"},
                {Component::norm, "norm", "norms"},
                {Component::final_norm, "final_norm", "final norm"},
                {Component::head, "head", "head"}};
  const ParamTable table(c);
  for (const ParamSpec& spec : table.specs()) {
    for (ComponentCount& count : components) {
      if (count.component != spec.component) continue;
      count.total += spec.size();
      if (spec.layer == 0) count.per_layer += spec.size();
    }
    if (spec.layer >= 0) layers += spec.size();
  }
  for (const ComponentCount& count : components)
    per_layer += count.per_layer;
  total = table.total();
  rule_of_thumb = 12 * c.n_layer * c.n_embd * c.n_embd;
  lookup_only = components[1].total + (c.tie_embeddings ? 0 : components[0].total);
}

int64_t ModelCounts::visible_keys(int64_t n_tokens) const {
  return config.sliding_window > 0 ? std::min(n_tokens, config.sliding_window) : n_tokens;
}

double ModelCounts::forward_flops(int64_t n_tokens) const {
  return 2.0 * static_cast<double>(total - lookup_only) +
         4.0 * static_cast<double>(config.n_layer * config.q_dim()) *
             static_cast<double>(visible_keys(n_tokens));
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
  parts.scores = 4.0 * static_cast<double>(config.n_layer * config.q_dim()) *
                 static_cast<double>(visible_keys(n_tokens));
  return parts;
}

int64_t ModelCounts::cache_bytes_per_token(int64_t element_bytes) const {
  return 2 * config.n_layer * config.kv_dim() * element_bytes;
}

int64_t ModelCounts::activation_bytes(int64_t batch, int64_t n_tokens, bool recompute, DType dtype) const {
  return TrainingGraph::planned_activations(config, batch, n_tokens,
                                            {.recompute = recompute, .dtype = dtype});
}

}  // namespace gpt
