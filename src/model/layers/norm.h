#pragma once

#include "model/forward_context.h"
#include "model/param_table.h"
#include "model/planner.h"

namespace gpt {

// Statistics that a norm saves for its backward pass.
struct NormStats {
  TensorView mean, rstd;  // [N]; only in training
  void plan(Planner& planner, NormKind kind, int64_t width);
};

class Norm {
 public:
  Norm(NormKind kind, double eps) : kind_(kind), eps_(eps) {}  // a norm without parameters
  Norm(NormKind kind, double eps, const ParamTable& table, Role gain, Role bias, int64_t layer);

  // Computes out = norm(in.x). With a branch, computes sum = in.x + in.branch and out = norm(sum).
  void forward(const ForwardContext& pass, NormStats& stats, const Residual& in, const TensorView& out,
               const TensorView& sum) const;
  // Computes dx, the gradient of the input x, from `dout`, the gradient of the output. Adds `dresidual` to dx
  // if it is given.
  void backward(const BackwardContext& pass, const NormStats& stats, const TensorView& x,
                const TensorView& dout, const TensorView& dx, const TensorView& dresidual = {}) const;

 private:
  NormKind kind_;
  double eps_;
  int gain_ = -1, bias_ = -1;
};

}  // namespace gpt
