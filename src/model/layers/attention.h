#pragma once

#include "model/layers/linear.h"
#include "model/planner.h"

namespace gpt {

// Activations that training saves for the backward pass. In inference, all layers share the same memory for
// activations.
struct AttentionActs {
  // Queries, keys and values after rotation and QK norm, [N,(H+2Hkv)D]. If the layer reads the keys and
  // values of another layer, contains only queries, [N,H*D]. If kv_shared is set, the caller allocates this
  // view, because later layers also read it.
  TensorView qkv;
  TensorView kv_source;       // qkv of the layer whose keys and values are read (kv_layer)
  TensorView q_rstd, k_rstd;  // [N,H] and [N,Hkv]; only with qk_norm
  TensorView qk_normed;       // [N,(H+Hkv)D] or [N,H*D], before the gain; only with qk_norm_gain
  TensorView mixed;           // [N,H*D] input of the output projection
  TensorView lse;             // [N,H] log of the softmax denominator
  TensorView queries() const { return qkv.slice_cols(0, mixed.cols()); }
  void plan(Planner& planner, const LayerConfig& config);
};

// The gradient of shared keys and values: the sum over all layers that read them, except the layer that
// computes them.
struct SharedKvGrad {
  TensorView dkv;        // [N,2Hkv*D]
  bool written = false;  // false: dkv is treated as zero
};

// Gradients inside the attention module. Layers with equal configs use the same memory for these views.
struct AttentionGrads {
  TensorView dmixed;               // [N,H*D]
  TensorView dqkv;                 // [N,(H+2Hkv)D] or [N,H*D]
  TensorView dkv;                  // [N,2Hkv*D]; only if the layer reads keys and values of another layer
  SharedKvGrad* shared = nullptr;  // set by the caller if the keys and values are shared
  void plan(Planner& planner, const LayerConfig& config);
};

// Causal self-attention. Computes queries, keys and values, rotates and normalizes queries and keys, computes
// attention, and projects the result.
class SelfAttention {
 public:
  // rope: index in ForwardContext::rope_tables, or -1 without rotary embedding.
  SelfAttention(const LayerConfig& config, const ParamTable& table, int64_t layer, int rope);

  // Runs the first part of the forward pass on `in` [N,C]. Computes queries, keys and values, and writes keys
  // and values to the KV cache if there is one.
  void project(const ForwardContext& pass, AttentionActs& acts, const TensorView& in) const;
  // Runs the second part of the forward pass: attention and output projection. Writes `out` [N,C].
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
  int q_gain_, k_gain_;  // parameter ids of the QK norm gains, or -1
  int64_t kv_layer_;     // layer whose keys and values are read
  Linear qkv_, out_;
};

}  // namespace gpt
