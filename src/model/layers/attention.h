#pragma once

#include "model/layers/linear.h"
#include "model/planner.h"

namespace gpt {

// Saved for backward (in inference: scratch).
struct AttentionActs {
  // [N,(H+2Hkv)D] queries, keys and values after rotation and QK norm; [N,H*D] queries alone if the layer
  // reads another layer's keys and values. If kv_shared, the caller allocates it, since later layers read it.
  TensorView qkv;
  TensorView kv_source;       // qkv of the other layer
  TensorView q_rstd, k_rstd;  // [N,H], [N,Hkv] with qk_norm
  TensorView qk_normed;       // [N,(H+Hkv)D] or [N,H*D], before the gain, if there is one
  TensorView mixed;           // [N,H*D], what goes into the output projection
  TensorView lse;             // [N,H]
  TensorView queries() const { return qkv.slice_cols(0, mixed.cols()); }
  void plan(Planner& planner, const LayerConfig& config);
};

// Gradient of keys and values that several layers read, summed over all readers but the owner.
struct SharedKvGrad {
  TensorView dkv;        // [N,2Hkv*D]
  bool written = false;  // else it counts as zero
};

// Gradients inside the layer; one set serves all layers.
struct AttentionGrads {
  TensorView dmixed;               // [N,H*D]
  TensorView dqkv;                 // [N,(H+2Hkv)D] or [N,H*D]
  TensorView dkv;                  // [N,2Hkv*D] where another layer's keys and values are read
  SharedKvGrad* shared = nullptr;  // of these, or of the layer's own if kv_shared; provided by the caller
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
  void add_shared_gradient(const BackwardContext& pass, const AttentionGrads& grads) const;

  LayerConfig config_;
  int64_t layer_;
  int rope_;
  int q_gain_, k_gain_;  // of the head norms; -1: none
  int64_t kv_layer_;     // whose keys and values are read
  Linear qkv_, out_;
};

}  // namespace gpt
