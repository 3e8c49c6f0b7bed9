#include "model/layers/block.h"

namespace gpt {

void BlockActs::plan(Planner& planner, const LayerConfig& c) {
  const Shape stream{planner.rows(), c.n_embd};
  // With post-norm, the output of the norm is the residual stream.
  const bool post = c.norm_position == NormPosition::post;
  if (post) {
    planner.reserve(norm1_out, "norm1 output", stream, planner.wide());
    planner.reserve(x_sum, "residual after mlp", stream, planner.wide());
  } else {
    planner.reserve(norm1_out, "norm1 output", stream);
    planner.reserve(norm2_out, "norm2 output", stream);
  }
  if (c.scales_input) planner.reserve(x_scaled, "scaled residual", stream, planner.wide());
  if (c.scales_branches && planner.is_training()) {
    planner.reserve(attention_unscaled, "attention branch unscaled", stream);
    planner.reserve(mlp_unscaled, "mlp branch unscaled", stream);
  }
  planner.reserve(x_mid, "residual after attention", stream, planner.wide());
  norm1.plan(planner, c.norm, c.n_embd);
  norm2.plan(planner, c.norm, c.n_embd);
  attention.plan(planner, c);
  mlp.plan(planner, c);
}

BlockActs BlockActs::first_rows(int64_t rows) const {
  BlockActs a = *this;
  for (TensorView* v :
       {&a.x_in, &a.x_out, &a.x0, &a.x_scaled, &a.norm1_out, &a.norm2_out, &a.x_mid, &a.x_sum,
        &a.attention_out, &a.mlp_out, &a.attention_unscaled, &a.mlp_unscaled, &a.attention.qkv,
        &a.attention.qk_normed, &a.attention.mixed, &a.mlp.up, &a.mlp.hidden}) {
    if (*v) *v = v->slice_rows(0, rows);
  }
  return a;
}

void BlockGrads::plan(Planner& planner, const LayerConfig& c) {
  const Shape stream{planner.rows(), c.n_embd};
  planner.reserve(dnorm, "d norm output", stream);
  if (c.resid_dropout > 0 || c.scales_branches) planner.reserve(dbranch, "d branch", stream, planner.wide());
  const int64_t mark = planner.mark();  // attention and MLP share this memory
  attention.plan(planner, c);
  planner.rewind(mark);
  mlp.plan(planner, c);
}

Block::Block(const LayerConfig& c, const ParamTable& table, int64_t layer, int rope)
    : pre_(c.norm_position == NormPosition::pre),
      dropout_(c.resid_dropout),
      layer_(layer),
      input_scale_(table.find(Role::input_scale, layer)),
      x0_scale_(table.find(Role::x0_scale, layer)),
      attention_branch_{RandomSite::dropout_attention_out, table.find(Role::attention_scale, layer)},
      mlp_branch_{RandomSite::dropout_mlp_out, table.find(Role::mlp_scale, layer)},
      norm1_(c.norm, c.norm_eps, table, Role::norm1_gain, Role::norm1_bias, layer),
      norm2_(c.norm, c.norm_eps, table, Role::norm2_gain, Role::norm2_bias, layer),
      attention_(c, table, layer, rope),
      mlp_(c, table, layer) {}

// Applies dropout and the learned scale to the output of a sub-layer.
void Block::finish_branch(const ForwardContext& pass, const Branch& branch, const TensorView& unscaled,
                          const TensorView& out) const {
  const KernelTable& k = pass.ctx.kernels;
  const DropoutKey dropout = pass.dropout(dropout_, branch.site, layer_);
  if (dropout.p > 0) k.dropout(pass.ctx, {.out = unscaled, .x = unscaled, .dropout = dropout});
  if (branch.scale >= 0)
    k.scaled_sum(pass.ctx, {.out = out, .a = unscaled, .a_scale = pass.weight(branch.scale)});
}

// Returns the gradient of a sub-layer's output, given the gradient of the residual sum.
TensorView Block::branch_gradient(const BackwardContext& pass, const Branch& branch,
                                  const TensorView& unscaled, const TensorView& dx, BlockGrads& grads) const {
  const KernelTable& k = pass.ctx.kernels;
  TensorView d = dx;
  if (branch.scale >= 0) {
    k.scaled_sum_backward(pass.ctx, {.dout = dx,
                                     .x = unscaled,
                                     .scale = pass.weight(branch.scale),
                                     .dx = grads.dbranch,
                                     .dscale = pass.grad(branch.scale),
                                     .accumulate_scale = pass.accumulate});
    pass.gradient_ready(branch.scale);
    d = grads.dbranch;
  }
  const DropoutKey dropout = pass.dropout(dropout_, branch.site, layer_);
  if (dropout.p <= 0) return d;
  k.dropout(pass.ctx, {.out = grads.dbranch, .x = d, .dropout = dropout});
  return grads.dbranch;
}

void Block::scale_input(const ForwardContext& pass, const BlockActs& a) const {
  pass.ctx.kernels.scaled_sum(pass.ctx, {.out = a.x_scaled,
                                         .a = a.x_in,
                                         .a_scale = pass.weight(input_scale_),
                                         .b = a.x0,
                                         .b_scale = pass.weight(x0_scale_)});
}

void Block::scale_input_backward(const BackwardContext& pass, const BlockActs& a, ResidualGrads& d) const {
  const KernelTable& k = pass.ctx.kernels;
  const auto backward = [&](int scale, const TensorView& x, const TensorView& dx, bool accumulate) {
    k.scaled_sum_backward(pass.ctx, {.dout = d.x,
                                     .x = x,
                                     .scale = pass.weight(scale),
                                     .dx = dx,
                                     .dscale = pass.grad(scale),
                                     .accumulate = accumulate,
                                     .accumulate_scale = pass.accumulate});
    pass.gradient_ready(scale);
  };
  backward(x0_scale_, a.x0, d.x0, d.x0_written);
  d.x0_written = true;
  backward(input_scale_, a.x_in, d.x, false);
}

void Block::project(const ForwardContext& pass, BlockActs& a, const Residual& in) const {
  Residual stream = in;
  if (!in.branch) {
    a.x_in = in.x;
  } else if (!pre_ || input_scale_ >= 0) {  // otherwise, the norm computes the sum
    pass.ctx.kernels.add(pass.ctx, {.out = a.x_in, .a = in.x, .b = in.branch});
    stream = {a.x_in};
  }
  if (input_scale_ >= 0) {
    scale_input(pass, a);
    stream = {a.x_scaled};
  }
  if (pre_) norm1_.forward(pass, a.norm1, stream, a.norm1_out, a.x_in);
  pass.show(layer_, "in", a.stream());
  if (pre_) pass.show(layer_, "norm1.out", a.norm1_out);
  attention_.project(pass, a.attention, pre_ ? a.norm1_out : a.stream());
}

void Block::attend(const ForwardContext& pass, BlockActs& a) const {
  const TensorView& unscaled = a.attention_unscaled ? a.attention_unscaled : a.attention_out;
  attention_.attend(pass, a.attention, unscaled);
  finish_branch(pass, attention_branch_, unscaled, a.attention_out);
  pass.show(layer_, "attention.out", a.attention_out);
}

void Block::feed_forward(const ForwardContext& pass, BlockActs& a, const TensorView& in) const {
  const TensorView& unscaled = a.mlp_unscaled ? a.mlp_unscaled : a.mlp_out;
  mlp_.forward(pass, a.mlp, in, unscaled);
  finish_branch(pass, mlp_branch_, unscaled, a.mlp_out);
  pass.show(layer_, "mlp.out", a.mlp_out);
}

Residual Block::finish(const ForwardContext& pass, BlockActs& a) const {
  attend(pass, a);
  const Residual middle{a.stream(), a.attention_out};
  if (pre_) {
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
  if (!pre_ || mlp_branch_.scale >= 0) {
    finish(pass, a);
    return;
  }
  // The backward pass does not read the output of the MLP, so the last matmul of the MLP is skipped.
  attend(pass, a);
  norm2_.forward(pass, a.norm2, {a.stream(), a.attention_out}, a.norm2_out, a.x_mid);
  mlp_.forward_hidden(pass, a.mlp, a.norm2_out);
}

void Block::backward(const BackwardContext& pass, const BlockActs& a, BlockGrads& g, ResidualGrads& d) const {
  if (pre_) {
    backward_pre(pass, a, g, d.x);
  } else {
    backward_post(pass, a, g, d.x);
  }
  if (input_scale_ >= 0) scale_input_backward(pass, a, d);
}

void Block::backward_pre(const BackwardContext& pass, const BlockActs& a, BlockGrads& g,
                         const TensorView& dx) const {
  TensorView dbranch = branch_gradient(pass, mlp_branch_, a.mlp_unscaled, dx, g);
  mlp_.backward(pass, a.mlp, g.mlp, a.norm2_out, dbranch, g.dnorm, false);
  norm2_.backward(pass, a.norm2, a.x_mid, g.dnorm, dx, dx);
  dbranch = branch_gradient(pass, attention_branch_, a.attention_unscaled, dx, g);
  attention_.backward(pass, a.attention, g.attention, a.norm1_out, dbranch, g.dnorm, false);
  norm1_.backward(pass, a.norm1, a.stream(), g.dnorm, dx, dx);
}

void Block::backward_post(const BackwardContext& pass, const BlockActs& a, BlockGrads& g,
                          const TensorView& dx) const {
  norm2_.backward(pass, a.norm2, a.x_sum, dx, dx);
  TensorView dbranch = branch_gradient(pass, mlp_branch_, a.mlp_unscaled, dx, g);
  mlp_.backward(pass, a.mlp, g.mlp, a.norm1_out, dbranch, dx, true);
  norm1_.backward(pass, a.norm1, a.x_mid, dx, dx);
  dbranch = branch_gradient(pass, attention_branch_, a.attention_unscaled, dx, g);
  attention_.backward(pass, a.attention, g.attention, a.stream(), dbranch, dx, true);
}

}  // namespace gpt
