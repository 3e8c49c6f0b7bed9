#include "model/model_counts.h"

#include "model/layers/block.h"
#include "model/layers/embedding.h"
#include "model/layers/head.h"
#include "model/planner.h"

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

double ModelCounts::forward_flops(int64_t n_tokens) const {
  return 2.0 * static_cast<double>(total - lookup_only) +
         4.0 * static_cast<double>(config.n_layer * config.q_dim()) * static_cast<double>(n_tokens);
}

int64_t ModelCounts::cache_bytes_per_token(int64_t element_bytes) const {
  return 2 * config.n_layer * config.kv_dim() * element_bytes;
}

int64_t ModelCounts::activation_bytes(int64_t batch, int64_t n_tokens, bool recompute) const {
  const int64_t rows = batch * n_tokens;
  Planner planner(DType::f32);
  EmbeddingActs embedding;
  embedding.plan(planner, config, rows, true);
  TensorView residual;
  for (int64_t i = 0; i <= config.n_layer; ++i)
    planner.reserve(residual, "residual stream", {rows, config.n_embd});
  BlockActs acts;
  for (int64_t i = 0; i < (recompute ? 1 : config.n_layer); ++i)
    plan_block_saved(planner, acts, config, rows, true);
  plan_block_scratch(planner, acts, config, rows);
  HeadActs head;
  plan_head(planner, head, config, rows, true);
  planner.reserve(residual, "d residual", {rows, config.n_embd});
  BlockGrads grads;
  plan_block_grads(planner, grads, config, rows);
  return planner.bytes();
}

}  // namespace gpt
