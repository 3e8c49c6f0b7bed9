#include "model/layers/head.h"

namespace gpt {

void HeadActs::plan(Planner& planner, const ModelConfig& c) {
  const int64_t rows = planner.rows();
  if (c.final_norm) {
    planner.reserve(normed, "final norm output", {rows, c.n_embd});
    norm.plan(planner, c.norm, c.n_embd);
  }
  if (c.middle_layer >= 0) planner.reserve(middle, "middle of the stream", {rows, c.n_embd}, planner.wide());
  if (planner.shape().mode == PassMode::inference) planner.add_linear_scratch(rows, c.vocab_size, c.n_embd);
}

Head::Head(const ModelConfig& c, const ParamTable& table)
    : middle_scale_(table.find(Role::middle_scale)),
      linear_(table,
              {{table.find(c.tie_embeddings ? Role::wte : Role::head_weight), table.find(Role::head_bias)}}),
      softcap_(c.logit_softcap) {
  if (c.final_norm) norm_.emplace(c.norm, c.norm_eps, table, Role::final_gain, Role::final_bias, -1);
}

TensorView Head::forward_norm(const ForwardContext& pass, HeadActs& acts, const Residual& in) const {
  const KernelTable& k = pass.ctx.kernels;
  const TensorView x = acts.x.slice_rows(0, in.x.rows());
  Residual stream = in;
  if (in.middle) {
    if (in.branch) k.add(pass.ctx, {.out = x, .a = in.x, .b = in.branch});
    k.scaled_sum(pass.ctx, {.out = x,
                            .a = in.branch ? x : in.x,
                            .b = in.middle,
                            .b_scale = pass.weight(middle_scale_),
                            .b_factor = -1});
    stream = {x};
  }
  if (norm_) {
    const TensorView normed = acts.normed.slice_rows(0, in.x.rows());
    norm_->forward(pass, acts.norm, stream, normed, x);
    pass.show(-1, "final_norm.in", x);
    pass.show(-1, "final_norm.out", normed);
    return normed;
  }
  if (stream.branch) k.add(pass.ctx, {.out = x, .a = in.x, .b = in.branch});
  pass.show(-1, "final_norm.in", x);
  return x;
}

void Head::logits(const ForwardContext& pass, const TensorView& normed, const TensorView& logits) const {
  linear_.forward(pass, normed, logits);
  if (softcap_ > 0) pass.ctx.kernels.softcap(pass.ctx, {.x = logits, .cap = softcap_});
}

void Head::backward_norm(const BackwardContext& pass, const HeadActs& acts, const TensorView& dx,
                         const TensorView& dmiddle) const {
  if (norm_) norm_->backward(pass, acts.norm, acts.x, dx, dx);
  if (middle_scale_ < 0) return;
  pass.ctx.kernels.scaled_sum_backward(pass.ctx, {.dout = dx,
                                                  .x = acts.middle,
                                                  .scale = pass.weight(middle_scale_),
                                                  .dx = dmiddle,
                                                  .dscale = pass.grad(middle_scale_),
                                                  .factor = -1,
                                                  .accumulate_scale = pass.accumulate});
}

}  // namespace gpt
