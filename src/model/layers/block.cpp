#include "model/layers/block.h"

namespace gpt {

void BlockActs::plan(Planner& planner, const ModelConfig& c) {
  const Shape stream{planner.rows(), c.n_embd};
  // With post-norm the norm's output is the residual stream.
  const bool post = c.norm_position == NormPosition::post;
  if (post) {
    planner.reserve(norm1_out, "norm1 output", stream, planner.wide());
    planner.reserve(x_sum, "residual after mlp", stream, planner.wide());
  } else {
    planner.reserve(norm1_out, "norm1 output", stream);
    planner.reserve(norm2_out, "norm2 output", stream);
  }
  planner.reserve(x_mid, "residual after attention", stream, planner.wide());
  norm1.plan(planner, c);
  norm2.plan(planner, c);
  attention.plan(planner, c);
  mlp.plan(planner, c);
}

BlockActs BlockActs::first_rows(int64_t rows) const {
  BlockActs a = *this;
  for (TensorView* v : {&a.x_in, &a.x_out, &a.norm1_out, &a.norm2_out, &a.x_mid, &a.x_sum, &a.attention_out,
                        &a.mlp_out, &a.attention.qkv, &a.attention.mixed, &a.mlp.up, &a.mlp.hidden}) {
    if (*v) *v = v->slice_rows(0, rows);
  }
  return a;
}

void BlockGrads::plan(Planner& planner, const ModelConfig& c) {
  const Shape stream{planner.rows(), c.n_embd};
  planner.reserve(dnorm, "d norm output", stream);
  if (c.resid_dropout > 0) planner.reserve(dbranch, "d branch", stream, planner.wide());
  const int64_t mark = planner.mark();  // the two sub-layers take turns
  attention.plan(planner, c);
  planner.rewind(mark);
  mlp.plan(planner, c);
}

Block::Block(const ModelConfig& c, const ParamTable& table, int64_t layer)
    : layer_(layer),
      norm1_(table, Role::norm1_gain, Role::norm1_bias, layer),
      norm2_(table, Role::norm2_gain, Role::norm2_bias, layer),
      attention_(c, table, layer),
      mlp_(c, table, layer) {}

void Block::drop(const ForwardContext& pass, RandomSite site, const TensorView& x) const {
  const DropoutKey dropout = pass.dropout(pass.config.resid_dropout, site, layer_);
  if (dropout.p > 0) pass.ctx.kernels.dropout(pass.ctx, {.out = x, .x = x, .dropout = dropout});
}

TensorView Block::drop_gradient(const ForwardContext& pass, RandomSite site, const TensorView& dx,
                                BlockGrads& grads) const {
  const DropoutKey dropout = pass.dropout(pass.config.resid_dropout, site, layer_);
  if (dropout.p <= 0) return dx;
  pass.ctx.kernels.dropout(pass.ctx, {.out = grads.dbranch, .x = dx, .dropout = dropout});
  return grads.dbranch;
}

void Block::project(const ForwardContext& pass, BlockActs& a, const Residual& in) const {
  const bool pre = pass.config.norm_position == NormPosition::pre;
  if (pre) norm1_.forward(pass, a.norm1, in, a.norm1_out, a.x_in);
  pass.show(layer_, "in", a.x_in);
  if (pre) pass.show(layer_, "norm1.out", a.norm1_out);
  attention_.project(pass, a.attention, pre ? a.norm1_out : a.x_in);
}

void Block::attend(const ForwardContext& pass, BlockActs& a) const {
  attention_.attend(pass, a.attention, a.attention_out);
  drop(pass, RandomSite::dropout_attention_out, a.attention_out);
  pass.show(layer_, "attention.out", a.attention_out);
}

void Block::feed_forward(const ForwardContext& pass, BlockActs& a, const TensorView& in) const {
  mlp_.forward(pass, a.mlp, in, a.mlp_out);
  drop(pass, RandomSite::dropout_mlp_out, a.mlp_out);
  pass.show(layer_, "mlp.out", a.mlp_out);
}

Residual Block::finish(const ForwardContext& pass, BlockActs& a) const {
  attend(pass, a);
  const Residual middle{a.x_in, a.attention_out};
  if (pass.config.norm_position == NormPosition::pre) {
    norm2_.forward(pass, a.norm2, middle, a.norm2_out, a.x_mid);
    pass.show(layer_, "mid", a.x_mid);
    pass.show(layer_, "norm2.out", a.norm2_out);
    feed_forward(pass, a, a.norm2_out);
    return {a.x_mid, a.mlp_out};
  }
  norm1_.forward(pass, a.norm1, middle, a.norm1_out, a.x_mid);
  pass.show(layer_, "mid", a.x_mid);
  pass.show(layer_, "norm1.out", a.norm1_out);
  feed_forward(pass, a, a.norm1_out);
  norm2_.forward(pass, a.norm2, {a.norm1_out, a.mlp_out}, a.x_out, a.x_sum);
  pass.show(layer_, "sum", a.x_sum);
  return {a.x_out};
}

void Block::recompute(const ForwardContext& pass, BlockActs& a) const {
  project(pass, a, {a.x_in});
  if (pass.config.norm_position == NormPosition::post) {
    finish(pass, a);
    return;
  }
  // What the block adds in the end is not read, so that its last product is left out.
  attend(pass, a);
  norm2_.forward(pass, a.norm2, {a.x_in, a.attention_out}, a.norm2_out, a.x_mid);
  mlp_.forward_hidden(pass, a.mlp, a.norm2_out);
}

void Block::backward(const ForwardContext& pass, const BlockActs& a, BlockGrads& g,
                     const TensorView& dx) const {
  if (pass.config.norm_position == NormPosition::pre) {
    backward_pre(pass, a, g, dx);
  } else {
    backward_post(pass, a, g, dx);
  }
}

void Block::backward_pre(const ForwardContext& pass, const BlockActs& a, BlockGrads& g,
                         const TensorView& dx) const {
  TensorView dbranch = drop_gradient(pass, RandomSite::dropout_mlp_out, dx, g);
  mlp_.backward(pass, a.mlp, g.mlp, a.norm2_out, dbranch, g.dnorm, false);
  norm2_.backward(pass, a.norm2, a.x_mid, g.dnorm, dx, dx);
  dbranch = drop_gradient(pass, RandomSite::dropout_attention_out, dx, g);
  attention_.backward(pass, a.attention, g.attention, a.norm1_out, dbranch, g.dnorm, false);
  norm1_.backward(pass, a.norm1, a.x_in, g.dnorm, dx, dx);
}

void Block::backward_post(const ForwardContext& pass, const BlockActs& a, BlockGrads& g,
                          const TensorView& dx) const {
  norm2_.backward(pass, a.norm2, a.x_sum, dx, dx);
  TensorView dbranch = drop_gradient(pass, RandomSite::dropout_mlp_out, dx, g);
  mlp_.backward(pass, a.mlp, g.mlp, a.norm1_out, dbranch, dx, true);
  norm1_.backward(pass, a.norm1, a.x_mid, dx, dx);
  dbranch = drop_gradient(pass, RandomSite::dropout_attention_out, dx, g);
  attention_.backward(pass, a.attention, g.attention, a.x_in, dbranch, dx, true);
}

}  // namespace gpt
