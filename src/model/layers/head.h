#pragma once

#include "model/layers/linear.h"
#include "model/layers/norm.h"

namespace gpt {

struct HeadActs {
  TensorView x;       // [N,C] the residual stream after the last block
  TensorView normed;  // [N,C] after the final norm
  TensorView middle;  // [N,C] the residual stream after middle_layer, if there is one
  NormStats norm;
  void plan(Planner& planner, const ModelConfig& config);  // all but x
};

// Final norm and output matrix.
class Head {
 public:
  Head(const ModelConfig& config, const ParamTable& table);

  // Stores the stream in acts.x. Returns the input of the output matrix [N,C]: acts.normed, or acts.x if the
  // model has no final norm.
  TensorView forward_norm(const ForwardContext& pass, HeadActs& acts, const Residual& in) const;

  // Writes the logits [n,V], after the softcap, of normed [n,C].
  void logits(const ForwardContext& pass, const TensorView& normed, const TensorView& logits) const;

  const Linear& linear() const { return linear_; }  // from hidden states [N,C] to logits, before the softcap
  double softcap() const { return softcap_; }       // 0: none
  // Backward pass of the final norm, in place on dx [N,C]. If the model has a middle layer, writes the
  // gradient of acts.middle to dmiddle [N,C].
  void backward_norm(const BackwardContext& pass, const HeadActs& acts, const TensorView& dx,
                     const TensorView& dmiddle = {}) const;

 private:
  int middle_scale_;  // id, or -1
  std::optional<Norm> norm_;
  Linear linear_;
  double softcap_;
};

}  // namespace gpt
