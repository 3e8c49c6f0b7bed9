#pragma once

#include "model/forward_context.h"
#include "model/param_table.h"
#include "model/planner.h"

namespace gpt {

// What a norm's backward pass needs: its statistics.
struct NormStats {
  TensorView mean, rstd;  // [N]; only in training
  void plan(Planner& planner, const ModelConfig& config);
};

class Norm {
 public:
  Norm() = default;
  Norm(const ParamTable& table, Role gain, Role bias, int64_t layer);

  // out = norm(in.x); with a branch: sum = in.x + in.branch, out = norm(sum).
  void forward(const ForwardContext& pass, NormStats& stats, const Residual& in, const TensorView& out,
               const TensorView& sum) const;
  // dx = d(norm)/dx dout (+ dresidual); x is what was normalised.
  void backward(const ForwardContext& pass, const NormStats& stats, const TensorView& x,
                const TensorView& dout, const TensorView& dx, const TensorView& dresidual = {}) const;

 private:
  int gain_ = -1, bias_ = -1;
};

}  // namespace gpt
