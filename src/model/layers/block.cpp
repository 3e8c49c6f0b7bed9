#include "model/layers/block.h"

namespace gpt {

void plan_block_saved(Planner& planner, BlockActs& a, const ModelConfig& c, int64_t rows, bool training) {
  // With post-norm the norm's output is the residual stream.
  const bool post = c.norm_position == NormPosition::post;
  if (post) {
    planner.reserve(a.norm1_out, "norm1 output", {rows, c.n_embd}, planner.wide());
    planner.reserve(a.x_sum, "residual after mlp", {rows, c.n_embd}, planner.wide());
  } else {
    planner.reserve(a.norm1_out, "norm1 output", {rows, c.n_embd});
    planner.reserve(a.norm2_out, "norm2 output", {rows, c.n_embd});
  }
  planner.reserve(a.x_mid, "residual after attention", {rows, c.n_embd}, planner.wide());
  if (training) {
    a.norm1.plan(planner, c, rows);
    a.norm2.plan(planner, c, rows);
  }
  a.attention.plan(planner, c, rows, training);
  a.mlp.plan(planner, c, rows);
}

void plan_block_scratch(Planner& planner, BlockActs& a, const ModelConfig& c, int64_t rows) {
  planner.reserve(a.attention_out, "attention branch", {rows, c.n_embd});
  planner.reserve(a.mlp_out, "mlp branch", {rows, c.n_embd});
}

void plan_block_grads(Planner& planner, BlockGrads& g, const ModelConfig& c, int64_t rows) {
  planner.reserve(g.dnorm, "d norm output", {rows, c.n_embd});
  if (c.resid_dropout > 0) planner.reserve(g.dbranch, "d branch", {rows, c.n_embd}, planner.wide());
  const int64_t mark = planner.mark();  // the two sub-layers take turns
  g.attention.plan(planner, c, rows);
  planner.rewind(mark);
  g.mlp.plan(planner, c, rows);
}

Block::Block(const ModelConfig& c, const ParamTable& table, int64_t layer)
    : layer_(layer),
      norm1_(table, Role::norm1_gain, Role::norm1_bias, layer),
      norm2_(table, Role::norm2_gain, Role::norm2_bias, layer),
      attention_(c, table, layer),
      mlp_(c, table, layer) {}

void Block::drop(const Pass& pass, RandomSite site, const TensorView& x) const {
  const DropoutKey dropout = pass.dropout(pass.config.resid_dropout, site, layer_);
  if (dropout.p > 0) pass.ctx.kernels.dropout(pass.ctx, {.out = x, .x = x, .dropout = dropout});
}

TensorView Block::drop_gradient(const Pass& pass, RandomSite site, const TensorView& dx,
                                BlockGrads& grads) const {
  const DropoutKey dropout = pass.dropout(pass.config.resid_dropout, site, layer_);
  if (dropout.p <= 0) return dx;
  pass.ctx.kernels.dropout(pass.ctx, {.out = grads.dbranch, .x = dx, .dropout = dropout});
  return grads.dbranch;
}

void Block::project(const Pass& pass, BlockActs& a, const TensorView& x, const TensorView& branch) const {
  const bool pre = pass.config.norm_position == NormPosition::pre;
  if (pre)
    norm1_.forward(pass, a.norm1, branch ? x : a.x_in, a.norm1_out, branch, branch ? a.x_in : TensorView{});
  attention_.project(pass, a.attention, pre ? a.norm1_out : a.x_in);
}

void Block::finish(const Pass& pass, BlockActs& a) const {
  if (pass.config.norm_position == NormPosition::pre) {
    finish_pre(pass, a);
  } else {
    finish_post(pass, a);
  }
}

void Block::finish_pre(const Pass& pass, BlockActs& a) const {
  attention_.attend(pass, a.attention, a.attention_out);
  drop(pass, RandomSite::dropout_attention_out, a.attention_out);
  norm2_.forward(pass, a.norm2, a.x_in, a.norm2_out, a.attention_out, a.x_mid);
  mlp_.forward(pass, a.mlp, a.norm2_out, a.mlp_out);
  drop(pass, RandomSite::dropout_mlp_out, a.mlp_out);
}

void Block::finish_post(const Pass& pass, BlockActs& a) const {
  attention_.attend(pass, a.attention, a.attention_out);
  drop(pass, RandomSite::dropout_attention_out, a.attention_out);
  norm1_.forward(pass, a.norm1, a.x_in, a.norm1_out, a.attention_out, a.x_mid);
  mlp_.forward(pass, a.mlp, a.norm1_out, a.mlp_out);
  drop(pass, RandomSite::dropout_mlp_out, a.mlp_out);
  norm2_.forward(pass, a.norm2, a.norm1_out, a.x_out, a.mlp_out, a.x_sum);
}

void Block::backward(const Pass& pass, const BlockActs& a, BlockGrads& g, const TensorView& dx) const {
  if (pass.config.norm_position == NormPosition::pre) {
    backward_pre(pass, a, g, dx);
  } else {
    backward_post(pass, a, g, dx);
  }
}

void Block::backward_pre(const Pass& pass, const BlockActs& a, BlockGrads& g, const TensorView& dx) const {
  TensorView dbranch = drop_gradient(pass, RandomSite::dropout_mlp_out, dx, g);
  mlp_.backward(pass, a.mlp, g.mlp, a.norm2_out, dbranch, g.dnorm, false);
  norm2_.backward(pass, a.norm2, a.x_mid, g.dnorm, dx, dx);
  dbranch = drop_gradient(pass, RandomSite::dropout_attention_out, dx, g);
  attention_.backward(pass, a.attention, g.attention, a.norm1_out, dbranch, g.dnorm, false);
  norm1_.backward(pass, a.norm1, a.x_in, g.dnorm, dx, dx);
}

void Block::backward_post(const Pass& pass, const BlockActs& a, BlockGrads& g, const TensorView& dx) const {
  norm2_.backward(pass, a.norm2, a.x_sum, dx, dx);
  TensorView dbranch = drop_gradient(pass, RandomSite::dropout_mlp_out, dx, g);
  mlp_.backward(pass, a.mlp, g.mlp, a.norm1_out, dbranch, dx, true);
  norm1_.backward(pass, a.norm1, a.x_mid, dx, dx);
  dbranch = drop_gradient(pass, RandomSite::dropout_attention_out, dx, g);
  attention_.backward(pass, a.attention, g.attention, a.x_in, dbranch, dx, true);
}

}  // namespace gpt
