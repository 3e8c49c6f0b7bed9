#pragma once

#include "model/layers/linear.h"
#include "model/layers/norm.h"

namespace gpt {

struct HeadActs {
  TensorView x;       // [N,C] residual stream after the last layer
  TensorView normed;  // [N,C] output of the final norm
  TensorView middle;  // [N,C] residual stream after middle_layer, or absent
  NormStats norm;
  void plan(Planner& planner, const ModelConfig& config);  // reserves all views except x
};

// The final norm and the output matrix.
class Head {
 public:
  Head(const ModelConfig& config, const ParamTable& table);

  // Stores the residual stream in acts.x. Returns the input of the output matrix [N,C]: acts.normed, or
  // acts.x if the model has no final norm.
  TensorView forward_norm(const ForwardContext& pass, HeadActs& acts, const Residual& in) const;

  // Computes logits [n,V] from `normed` [n,C] and applies the softcap.
  void logits(const ForwardContext& pass, const TensorView& normed, const TensorView& logits) const;

  const Linear& linear() const { return linear_; }  // from hidden states [N,C] to logits, before the softcap
  double softcap() const { return softcap_; }       // 0: no softcap
  // Runs the backward pass of the final norm in place on dx [N,C]. If the model has a middle layer, writes
  // the gradient of acts.middle to dmiddle [N,C].
  void backward_norm(const BackwardContext& pass, const HeadActs& acts, const TensorView& dx,
                     const TensorView& dmiddle = {}) const;

 private:
  int middle_scale_;  // parameter id, or -1
  std::optional<Norm> norm_;
  Linear linear_;
  double softcap_;
};

}  // namespace gpt
