#include "model/layers/embedding.h"

namespace gpt {

void EmbeddingActs::plan(Planner& planner, const ModelConfig& c) {
  if (!c.embd_norm) return;
  planner.reserve(raw, "embedding before its norm", {planner.rows(), c.n_embd}, planner.wide());
  norm.plan(planner, c);
}

Embedding::Embedding(const ParamTable& table) : wte_(table.find(Role::wte)), wpe_(table.find(Role::wpe)) {}

Residual Embedding::forward(const ForwardContext& pass, EmbeddingActs& acts, const TensorView& out) const {
  const KernelTable& k = pass.ctx.kernels;
  const TensorView raw = pass.config.embd_norm ? acts.raw.slice_rows(0, out.rows()) : out;
  k.embedding_forward(pass.ctx, {.out = raw,
                                 .ids = pass.batch.ids,
                                 .positions = pass.batch.positions,
                                 .wte = pass.weight(wte_),
                                 .wpe = pass.optional_weight(wpe_)});
  const DropoutKey dropout = pass.dropout(pass.config.embd_dropout, RandomSite::dropout_embedding, 0);
  if (dropout.p > 0) k.dropout(pass.ctx, {.out = raw, .x = raw, .dropout = dropout});
  if (pass.config.embd_norm) {
    pass.show(-1, "embedding.sum", raw);
    Norm().forward(pass, acts.norm, {raw}, out, {});  // it has no parameters
  }
  return {out};
}

void Embedding::backward(const ForwardContext& pass, const EmbeddingActs& acts, const TensorView& dx,
                         bool add_to_wte) const {
  const KernelTable& k = pass.ctx.kernels;
  if (pass.config.embd_norm) Norm().backward(pass, acts.norm, acts.raw, dx, dx);
  const DropoutKey dropout = pass.dropout(pass.config.embd_dropout, RandomSite::dropout_embedding, 0);
  if (dropout.p > 0) k.dropout(pass.ctx, {.out = dx, .x = dx, .dropout = dropout});
  k.embedding_backward(pass.ctx, {.dout = dx,
                                  .ids = pass.batch.ids,
                                  .positions = pass.batch.positions,
                                  .dwte = pass.grad(wte_),
                                  .dwpe = pass.grad(wpe_),
                                  .accumulate_wte = add_to_wte || pass.accumulate_grads,
                                  .accumulate_wpe = pass.accumulate_grads});
}

}  // namespace gpt
