#pragma once

#include "model/layers/linear.h"
#include "model/planner.h"

namespace gpt {

// Saved for backward (in inference: scratch).
struct AttentionActs {
  TensorView qkv;             // [N,(H+2Hkv)D], after rotation and QK norm
  TensorView q_rstd, k_rstd;  // [N,H], [N,Hkv] with qk_norm
  TensorView mixed;           // [N,H*D], what goes into the output projection
  TensorView lse;             // [N,H]
  void plan(Planner& planner, const ModelConfig& config);
};

// Gradients inside the layer; one set serves all layers.
struct AttentionGrads {
  TensorView dmixed;  // [N,H*D]
  TensorView dqkv;    // [N,(H+2Hkv)D]
  void plan(Planner& planner, const ModelConfig& config);
};

// Causal self-attention: project, rotate, normalise, attend, project.
class SelfAttention {
 public:
  SelfAttention(const ModelConfig& config, const ParamTable& table, int64_t layer);

  // Forward in two steps, in, out [N,C]: queries, keys and values, the latter into the cache if there is one;
  void project(const ForwardContext& pass, AttentionActs& acts, const TensorView& in) const;
  // then what the queries find there.
  void attend(const ForwardContext& pass, AttentionActs& acts, const TensorView& out) const;
  void backward(const ForwardContext& pass, const AttentionActs& acts, AttentionGrads& grads,
                const TensorView& in, const TensorView& dout, const TensorView& din,
                bool accumulate_din) const;

 private:
  AttentionShape shape(const ForwardContext& pass) const;
  void rotate(const ForwardContext& pass, const TensorView& qk, int sign) const;
  void store(const ForwardContext& pass, const AttentionActs& acts) const;

  int64_t layer_;
  Linear qkv_, out_;
};

}  // namespace gpt
