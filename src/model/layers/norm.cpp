#include "model/layers/norm.h"

namespace gpt {

void NormStats::plan(Planner& planner, NormKind kind, int64_t width) {
  if (!planner.is_training()) return;
  if (kind == NormKind::layer) planner.reserve(mean, "norm mean", {planner.rows()}, planner.wide());
  planner.reserve(rstd, "norm rstd", {planner.rows()}, planner.wide());
  planner.add_scratch(planner.kernels().norm_backward_scratch(planner.rows(), width, planner.wide()));
}

Norm::Norm(NormKind kind, double eps, const ParamTable& table, Role gain, Role bias, int64_t layer)
    : kind_(kind), eps_(eps), gain_(table.find(gain, layer)), bias_(table.find(bias, layer)) {}

void Norm::forward(const ForwardContext& pass, NormStats& stats, const Residual& in, const TensorView& out,
                   const TensorView& sum) const {
  pass.ctx.kernels.norm_forward(pass.ctx, {.kind = kind_,
                                           .eps = eps_,
                                           .out = out,
                                           .x = in.x,
                                           .gain = pass.optional_weight(gain_),
                                           .bias = pass.optional_weight(bias_),
                                           .add = in.branch,
                                           .sum = in.branch ? sum : TensorView{},
                                           .mean = stats.mean,
                                           .rstd = stats.rstd});
}

void Norm::backward(const BackwardContext& pass, const NormStats& stats, const TensorView& x,
                    const TensorView& dout, const TensorView& dx, const TensorView& dresidual) const {
  pass.ctx.kernels.norm_backward(pass.ctx, {.kind = kind_,
                                            .dx = dx,
                                            .dout = dout,
                                            .x = x,
                                            .gain = pass.optional_weight(gain_),
                                            .mean = stats.mean,
                                            .rstd = stats.rstd,
                                            .dresidual = dresidual,
                                            .dgain = pass.grad(gain_),
                                            .dbias = pass.grad(bias_),
                                            .accumulate = pass.accumulate});
  pass.gradient_ready(gain_);
  pass.gradient_ready(bias_);
}

}  // namespace gpt
