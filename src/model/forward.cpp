#include "model/forward.h"

#include <algorithm>

#include "model/weight_source.h"

namespace gpt {

Layers::Layers(const ModelConfig& c, const ParamTable& table)
    : ropes(distinct_ropes(layer_configs(c))),
      embedding(c, table),
      head(c, table),
      middle_layer(c.middle_layer) {
  int64_t layer = 0;
  for (const LayerConfig& config : layer_configs(c)) {
    const int rope =
        config.rope ? static_cast<int>(std::ranges::find(ropes, *config.rope) - ropes.begin()) : -1;
    blocks.emplace_back(config, table, layer++, rope);
  }
}

void Activations::plan(Planner& planner, const ModelConfig& c, const std::vector<LayerConfig>& layers,
                       bool recompute) {
  const bool training = planner.is_training();
  const Shape residual{planner.rows(), c.n_embd};
  embedding.plan(planner, c);
  residual_.resize(training ? layers.size() + 1 : 1);
  for (TensorView& view : residual_)
    planner.reserve(view, "residual stream", residual, planner.wide());
  if (!training && std::ranges::any_of(layers, &LayerConfig::scales_input))
    planner.reserve(x0_, "embedding", residual, planner.wide());
  plan_shared_kv(planner, layers);
  plan_blocks(planner, layers, training && !recompute);
  if (!layers.empty()) {
    planner.reserve(attention_out_, "attention branch", residual);
    planner.reserve(mlp_out_, "mlp branch", residual);
  }
  head.plan(planner, c);
  if (planner.shape().adapter_rank > 0)
    planner.reserve(adapter.low_rank, "adapter", {planner.rows(), 2 * planner.shape().adapter_rank},
                    planner.wide());
  if (training && planner.shape().adapter_dropout) {
    int64_t widest = c.n_embd;
    for (const LayerConfig& layer : layers)
      widest = std::max({widest, layer.q_dim(), layer.d_ff});
    planner.reserve(adapter.dropped, "adapter input", {planner.rows(), widest});
  }
}

void Activations::plan_shared_kv(Planner& planner, const std::vector<LayerConfig>& layers) {
  shared_qkv_.resize(layers.size());
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    kv_owner_.push_back(kv_owner(layers, layer));
    if (layers[layer].kv_shared)
      planner.reserve(shared_qkv_[layer], "shared qkv", {planner.rows(), layers[layer].qkv_dim()});
  }
}

void Activations::plan_blocks(Planner& planner, const std::vector<LayerConfig>& layers, bool each) {
  if (each) {
    blocks_.resize(layers.size());
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      block_of_.push_back(layer);
      blocks_[layer].plan(planner, layers[layer]);
    }
    return;
  }
  const LayerKinds kinds(layers);
  block_of_ = kinds.of_layer;
  blocks_.resize(kinds.configs.size());
  planner.reserve_alternatives(blocks_.size(), [&](size_t i) { blocks_[i].plan(planner, kinds.configs[i]); });
}

void Activations::set_shared_views() {
  head.x = residual_.back();
  for (BlockActs& block : blocks_) {
    block.attention_out = attention_out_;
    block.mlp_out = mlp_out_;
    if (block.x_scaled) block.x0 = x0_ ? x0_ : residual_.front();
  }
}

BlockActs Activations::block(size_t layer, int64_t rows) const {
  BlockActs acts = blocks_[block_of_[layer]];
  acts.x_in = residual_[residual_.size() > 1 ? layer : 0];
  acts.x_out = residual_[residual_.size() > 1 ? layer + 1 : 0];
  if (shared_qkv_[layer]) acts.attention.qkv = shared_qkv_[layer];
  if (kv_owner_[layer] != layer) acts.attention.kv_source = shared_qkv_[kv_owner_[layer]];
  return acts.first_rows(rows);
}

namespace {

// Moves the output rows of `x` to the front, because the rest of the pass only processes output rows. This
// function is called for the queries and the residual stream.
void compact_rows(const ForwardContext& pass, const TensorView& x) {
  pass.ctx.kernels.compact_rows(pass.ctx, {.x = x, .rows = pass.batch.output_rows->rows});
}

// Adds up the two terms of a residual stream and writes the sum to `out`.
void keep(const ForwardContext& pass, const Residual& stream, const TensorView& out) {
  if (stream.branch) {
    pass.ctx.kernels.add(pass.ctx, {.out = out, .a = stream.x, .b = stream.branch});
  } else {
    pass.ctx.kernels.scaled_sum(pass.ctx, {.out = out, .a = stream.x});
  }
}

}  // namespace

void ForwardContext::begin_layer(int64_t layer, int64_t next) const {
  if (weights.source != nullptr) weights.source->begin(layer, next);
}

TensorView run_layers(const ForwardContext& pass, const Layers& layers, Activations& acts) {
  const OutputRows* outputs = pass.batch.output_rows;
  ForwardContext rest = pass;  // for the rest of the pass, which only processes the output rows
  if (outputs != nullptr) {
    rest.batch.rows = static_cast<int64_t>(outputs->rows.size());
    rest.batch.sequences = outputs->sequences;
    rest.batch.adapters = outputs->adapters;
  }
  pass.begin_layer(WeightSource::kEmbeddings, 0);
  Residual residual = layers.embedding.forward(pass, acts.embedding, acts.input(pass.batch.rows));
  const size_t n_layer = layers.blocks.size();
  TensorView middle;
  for (size_t layer = 0; layer < n_layer; ++layer) {
    const auto number = static_cast<int64_t>(layer);
    pass.begin_layer(number, number + 1);
    const bool narrows = outputs != nullptr && layer + 1 == n_layer;
    BlockActs a = acts.block(layer, pass.batch.rows);
    layers.blocks[layer].project(pass, a, residual);
    if (narrows) {
      if (rest.batch.rows == 0) return {};
      compact_rows(pass, a.attention.queries());
      compact_rows(pass, a.stream());
      if (middle) {
        compact_rows(pass, middle);
        middle = middle.slice_rows(0, rest.batch.rows);
      }
      a = acts.block(layer, rest.batch.rows);
    }
    residual = layers.blocks[layer].finish(narrows ? rest : pass, a);
    if (number == layers.middle_layer) {
      middle = acts.head.middle.slice_rows(0, residual.x.rows());
      keep(pass, residual, middle);
    }
  }
  if (outputs != nullptr && n_layer == 0) {
    if (rest.batch.rows == 0) return {};
    compact_rows(pass, residual.x);
    residual.x = residual.x.slice_rows(0, rest.batch.rows);
  }
  residual.middle = middle;
  const auto end = static_cast<int64_t>(n_layer);
  pass.begin_layer(end, end - 1);
  return layers.head.forward_norm(rest, acts.head, residual);
}

}  // namespace gpt
