#pragma once

#include "model/layers/linear.h"
#include "model/planner.h"

namespace gpt {

// Saved for backward (in inference: scratch).
struct AttentionActs {
  TensorView qkv;             // [N,(H+2Hkv)D], after rotation and QK norm
  TensorView q_rstd, k_rstd;  // [N,H], [N,Hkv] with qk_norm
  TensorView qk_normed;       // [N,(H+Hkv)D], before the gain, if there is one
  TensorView mixed;           // [N,H*D], what goes into the output projection
  TensorView lse;             // [N,H]
  TensorView queries() const { return qkv.slice_cols(0, mixed.cols()); }
  void plan(Planner& planner, const LayerConfig& config);
};

// Gradients inside the layer; one set serves all layers.
struct AttentionGrads {
  TensorView dmixed;  // [N,H*D]
  TensorView dqkv;    // [N,(H+2Hkv)D]
  void plan(Planner& planner, const LayerConfig& config);
};

// Causal self-attention: project, rotate, normalise, attend, project.
class SelfAttention {
 public:
  // rope: the number of the rotary table; -1: none.
  SelfAttention(const LayerConfig& config, const ParamTable& table, int64_t layer, int rope);

  // Forward in two steps, in, out [N,C]: queries, keys and values, the latter into the cache if there is one;
  void project(const ForwardContext& pass, AttentionActs& acts, const TensorView& in) const;
  // then what the queries find there.
  void attend(const ForwardContext& pass, AttentionActs& acts, const TensorView& out) const;
  void backward(const BackwardContext& pass, const AttentionActs& acts, AttentionGrads& grads,
                const TensorView& in, const TensorView& dout, const TensorView& din,
                bool accumulate_din) const;

 private:
  AttentionShape shape(const ForwardContext& pass) const;
  void rotate(const ForwardContext& pass, const TensorView& qk, int sign) const;
  void store(const ForwardContext& pass, const AttentionActs& acts) const;

  LayerConfig config_;
  int64_t layer_;
  int rope_;
  int q_gain_, k_gain_;  // of the head norms; -1: none
  Linear qkv_, out_;
};

}  // namespace gpt
