#pragma once

#include "model/layers/linear.h"
#include "model/planner.h"

namespace gpt {

struct MlpActs {
  TensorView up;      // [N,F] input of the activation; with a gate [N,2F]: gate, then up
  TensorView hidden;  // [N,F] output of the activation
  void plan(Planner& planner, const LayerConfig& config);
};

struct MlpGrads {
  TensorView dhidden;  // [N,F]; only with a gate
  TensorView dup;      // [N,F] or [N,2F]
  void plan(Planner& planner, const LayerConfig& config);
};

// The MLP of a layer. Computes down(act(up(x))) without a gate, and down(act(gate(x)) * up(x)) with a gate.
class Mlp {
 public:
  Mlp(const LayerConfig& config, const ParamTable& table, int64_t layer);

  // `in` and `out` are [N,C].
  void forward(const ForwardContext& pass, MlpActs& acts, const TensorView& in, const TensorView& out) const;
  // Runs `forward` without the down projection: the last result is acts.hidden. Also used to recompute the
  // activations that `backward` reads.
  void forward_hidden(const ForwardContext& pass, MlpActs& acts, const TensorView& in) const;
  void backward(const BackwardContext& pass, const MlpActs& acts, MlpGrads& grads, const TensorView& in,
                const TensorView& dout, const TensorView& din, bool accumulate_din) const;

 private:
  Activation act_;
  bool gated_;
  int64_t width_;  // F
  int64_t layer_;
  Linear up_, down_;
};

}  // namespace gpt
