#pragma once

#include "model/layers/linear.h"
#include "model/planner.h"

namespace gpt {

// Activations that training saves for the backward pass. In inference, layers reuse them.
struct AttentionActs {
  // [N,(H+2Hkv)D] queries, keys and values after rotation and QK norm; [N,H*D] queries alone if the layer
  // reads another layer's keys and values. If kv_shared, the caller allocates it, since later layers read it.
  TensorView qkv;
  TensorView kv_source;       // qkv of the layer whose keys and values are read (kv_layer)
  TensorView q_rstd, k_rstd;  // [N,H], [N,Hkv] with qk_norm
  TensorView qk_normed;       // [N,(H+Hkv)D] or [N,H*D] before the gain; only with qk_norm_gain
  TensorView mixed;           // [N,H*D] input of the output projection
  TensorView lse;             // [N,H] log of the softmax denominator
  TensorView queries() const { return qkv.slice_cols(0, mixed.cols()); }
  void plan(Planner& planner, const LayerConfig& config);
};

// Gradient of shared keys and values, summed over the layers that read them, without their owner.
struct SharedKvGrad {
  TensorView dkv;        // [N,2Hkv*D]
  bool written = false;  // false: dkv counts as zero
};

// Gradients inside the module. Layers with equal configs share one set.
struct AttentionGrads {
  TensorView dmixed;               // [N,H*D]
  TensorView dqkv;                 // [N,(H+2Hkv)D] or [N,H*D]
  TensorView dkv;                  // [N,2Hkv*D] only if the layer reads another layer's keys and values
  SharedKvGrad* shared = nullptr;  // set by the caller if the keys and values are shared
  void plan(Planner& planner, const LayerConfig& config);
};

// Causal self-attention: project, rotate, normalise, attend, project.
class SelfAttention {
 public:
  // rope: index in ForwardContext::rope_tables; -1: no rotary embedding.
  SelfAttention(const LayerConfig& config, const ParamTable& table, int64_t layer, int rope);

  // First half of the forward pass, in [N,C]: computes queries, keys and values, and writes keys and values
  // to the KV cache if there is one.
  void project(const ForwardContext& pass, AttentionActs& acts, const TensorView& in) const;
  // Second half, out [N,C]: attention and output projection.
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
  int q_gain_, k_gain_;  // parameter ids of the QK norm gains; -1: none
  int64_t kv_layer_;     // the layer whose keys and values are read
  Linear qkv_, out_;
};

}  // namespace gpt
