#pragma once

#include "model/layers/linear.h"
#include "model/planner.h"

namespace gpt {

struct MlpActs {
  TensorView up;      // [N,F], or gate and fc side by side [N,2F] with swiglu; before the activation
  TensorView hidden;  // [N,F] after the activation
  void plan(Planner& planner, const ModelConfig& config);
};

struct MlpGrads {
  TensorView dhidden;  // [N,F], only with swiglu
  TensorView dup;      // [N,F] or [N,2F]
  void plan(Planner& planner, const ModelConfig& config);
};

// proj(act(fc(x))), or proj(silu(gate(x)) * fc(x)).
class Mlp {
 public:
  Mlp(const ModelConfig& config, const ParamTable& table, int64_t layer);

  // in, out [N,C]
  void forward(const ForwardContext& pass, MlpActs& acts, const TensorView& in, const TensorView& out) const;
  // Its part that ends with acts.hidden: what `backward` reads.
  void forward_hidden(const ForwardContext& pass, MlpActs& acts, const TensorView& in) const;
  void backward(const ForwardContext& pass, const MlpActs& acts, MlpGrads& grads, const TensorView& in,
                const TensorView& dout, const TensorView& din, bool accumulate_din) const;

 private:
  int64_t layer_;
  Linear up_, down_;
};

}  // namespace gpt
