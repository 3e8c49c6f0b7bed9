#include "model/layers/embedding.h"

namespace gpt {

void EmbeddingActs::plan(Planner& planner, const ModelConfig& c) {
  if (!c.embd_norm) return;
  planner.reserve(raw, "embedding before its norm", {planner.rows(), c.n_embd}, planner.wide());
  norm.plan(planner, c.norm, c.n_embd);
}

Embedding::Embedding(const ModelConfig& c, const ParamTable& table)
    : wte_(table.find(Role::wte)), wpe_(table.find(Role::wpe)), dropout_(c.embd_dropout) {
  if (c.embd_norm) norm_.emplace(c.norm, c.norm_eps);
}

Residual Embedding::forward(const ForwardContext& pass, EmbeddingActs& acts, const TensorView& out) const {
  const KernelTable& k = pass.ctx.kernels;
  const TensorView raw = norm_ ? acts.raw.slice_rows(0, out.rows()) : out;
  k.embedding_forward(pass.ctx, {.out = raw,
                                 .ids = pass.batch.ids,
                                 .positions = pass.batch.positions,
                                 .wte = pass.weight(wte_),
                                 .wpe = pass.optional_weight(wpe_)});
  const DropoutKey dropout = pass.dropout(dropout_, RandomSite::dropout_embedding, 0);
  if (dropout.p > 0) k.dropout(pass.ctx, {.out = raw, .x = raw, .dropout = dropout});
  if (norm_) {
    pass.show(-1, "embedding.sum", raw);
    norm_->forward(pass, acts.norm, {raw}, out, {});
  }
  return {out};
}

void Embedding::backward(const BackwardContext& pass, const EmbeddingActs& acts, const TensorView& dx,
                         bool add_to_wte) const {
  const KernelTable& k = pass.ctx.kernels;
  if (norm_) norm_->backward(pass, acts.norm, acts.raw, dx, dx);
  const DropoutKey dropout = pass.dropout(dropout_, RandomSite::dropout_embedding, 0);
  if (dropout.p > 0) k.dropout(pass.ctx, {.out = dx, .x = dx, .dropout = dropout});
  k.embedding_backward(pass.ctx, {.dout = dx,
                                  .ids = pass.batch.ids,
                                  .positions = pass.batch.positions,
                                  .dwte = pass.grad(wte_),
                                  .dwpe = pass.grad(wpe_),
                                  .accumulate_wte = add_to_wte || pass.accumulate,
                                  .accumulate_wpe = pass.accumulate});
}

}  // namespace gpt
