#include "model/forward.h"

#include <algorithm>

#include "model/weight_source.h"

namespace gpt {

Layers::Layers(const ModelConfig& c, const ParamTable& table) : embedding(table), head(c, table) {
  for (int64_t layer = 0; layer < c.n_layer; ++layer)
    blocks.emplace_back(c, table, layer);
}

void Activations::plan(Planner& planner, const ModelConfig& c, bool recompute) {
  const bool training = planner.is_training();
  const auto n_layer = static_cast<size_t>(c.n_layer);
  const Shape residual{planner.rows(), c.n_embd};
  embedding.plan(planner, c);
  residual_.resize(training ? n_layer + 1 : 1);
  for (TensorView& view : residual_)
    planner.reserve(view, "residual residual", residual, planner.wide());
  blocks_.resize(training && !recompute ? n_layer : std::min<size_t>(n_layer, 1));
  for (BlockActs& block : blocks_)
    block.plan(planner, c);
  if (n_layer > 0) {
    planner.reserve(attention_out_, "attention branch", residual);
    planner.reserve(mlp_out_, "mlp branch", residual);
  }
  head.plan(planner, c);
  if (planner.shape().adapter_rank > 0)
    planner.reserve(low_rank, "adapter", {planner.rows(), 2 * planner.shape().adapter_rank}, planner.wide());
  if (training && planner.shape().adapter_dropout)
    planner.reserve(dropped, "adapter input", {planner.rows(), std::max({c.n_embd, c.q_dim(), c.d_ff})});
}

void Activations::set_shared_views() {
  head.x = residual_.back();
  for (BlockActs& block : blocks_) {
    block.attention_out = attention_out_;
    block.mlp_out = mlp_out_;
  }
}

BlockActs Activations::block(size_t layer, int64_t rows) const {
  BlockActs acts = blocks_[blocks_.size() > 1 ? layer : 0];
  acts.x_in = residual_[residual_.size() > 1 ? layer : 0];
  acts.x_out = residual_[residual_.size() > 1 ? layer + 1 : 0];
  return acts.first_rows(rows);
}

namespace {

// Moves what the rest of the pass reads of the rows that are kept to the front: queries and the residual
// residual.
void compact_rows(const ForwardContext& pass, const TensorView& x) {
  pass.ctx.kernels.compact_rows(pass.ctx, {.x = x, .rows = pass.batch.output_rows->rows});
}

}  // namespace

void ForwardContext::begin_layer(int64_t layer, int64_t next) const {
  if (source != nullptr) source->begin(layer, next);
}

TensorView run_layers(const ForwardContext& pass, const Layers& layers, Activations& acts) {
  const OutputRows* outputs = pass.batch.output_rows;
  ForwardContext rest = pass;  // for the end of the pass, which only the output rows take
  if (outputs != nullptr) {
    rest.batch.rows = static_cast<int64_t>(outputs->rows.size());
    rest.batch.sequences = outputs->sequences;
    rest.batch.adapters = outputs->adapters;
  }
  pass.begin_layer(WeightSource::kEmbeddings, 0);
  Residual residual = layers.embedding.forward(pass, acts.embedding, acts.input(pass.batch.rows));
  const size_t n_layer = layers.blocks.size();
  for (size_t layer = 0; layer < n_layer; ++layer) {
    const auto number = static_cast<int64_t>(layer);
    pass.begin_layer(number, number + 1);
    const bool narrows = outputs != nullptr && layer + 1 == n_layer;
    BlockActs a = acts.block(layer, pass.batch.rows);
    layers.blocks[layer].project(pass, a, residual);
    if (narrows) {
      if (rest.batch.rows == 0) return {};
      compact_rows(pass, a.attention.qkv.slice_cols(0, pass.config.q_dim()));
      compact_rows(pass, a.x_in);
      a = acts.block(layer, rest.batch.rows);
    }
    residual = layers.blocks[layer].finish(narrows ? rest : pass, a);
  }
  if (outputs != nullptr && n_layer == 0) {
    if (rest.batch.rows == 0) return {};
    compact_rows(pass, residual.x);
    residual.x = residual.x.slice_rows(0, rest.batch.rows);
  }
  pass.begin_layer(pass.config.n_layer, pass.config.n_layer - 1);
  return layers.head.forward_norm(rest, acts.head, residual);
}

}  // namespace gpt
