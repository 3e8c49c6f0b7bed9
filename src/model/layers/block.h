#pragma once

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"

namespace gpt {

// Activations that a layer saves for its backward pass. The views of the residual stream are named by
// position:
//   pre-norm:  x_in -> norm1 -> attention -> (+) x_mid -> norm2 -> mlp -> (+) x_out
//   post-norm: x_in -> attention -> (+) x_mid -> norm1 -> norm1_out -> mlp -> (+) x_sum -> norm2 -> x_out
// With scales_input, x_scaled = input_scale * x_in + x0_scale * x0 replaces x_in in the rest of these
// diagrams.
struct BlockActs {
  TensorView x_in;   // [N,C]; saved even if all other activations are recomputed
  TensorView x_out;  // [N,C] x_in of the next layer; only written here with post-norm
  TensorView x0;     // [N,C] output of the embedding; only with scales_input
  TensorView x_scaled;
  TensorView norm1_out, norm2_out, x_mid, x_sum;
  TensorView attention_out, mlp_out;            // [N,C]; shared by all layers
  TensorView attention_unscaled, mlp_unscaled;  // [N,C]; only in training with scales_branches
  NormStats norm1, norm2;
  AttentionActs attention;
  MlpActs mlp;

  // Reserves all views except x_in, x_out, x0, attention_out and mlp_out.
  void plan(Planner& planner, const LayerConfig& config);
  // Returns the residual stream that the first norm and the first sum read.
  const TensorView& stream() const { return x_scaled ? x_scaled : x_in; }
  // Returns views of the first `rows` rows.
  BlockActs first_rows(int64_t rows) const;
};

// Gradients inside a layer. Layers with equal configs use the same memory for these views.
struct BlockGrads {
  TensorView dnorm;    // [N,C] gradient of a norm's output
  TensorView dbranch;  // [N,C] gradient of a sub-layer's output, if dropout or a scale changes it
  AttentionGrads attention;
  MlpGrads mlp;
  void plan(Planner& planner, const LayerConfig& config);
};

// Gradients of the residual stream.
struct ResidualGrads {
  TensorView x;             // [N,C]
  TensorView x0;            // [N,C] gradient of the embedding, from layers with scales_input
  bool x0_written = false;  // false: x0 is treated as zero
  TensorView middle = {};   // [N,C] gradient of the stream after middle_layer, or absent
};

// One layer of the decoder (transformer block).
class Block {
 public:
  // rope: index of the rotary table (see SelfAttention).
  Block(const LayerConfig& config, const ParamTable& table, int64_t layer, int rope);

  // Runs the layer. Stores the input stream in acts.x_in. Returns the output stream: x_mid + mlp_out with
  // pre-norm, x_out with post-norm.
  Residual forward(const ForwardContext& pass, BlockActs& acts, const Residual& in) const {
    project(pass, acts, in);
    return finish(pass, acts);
  }
  // The two parts of `forward`. `project` computes queries, keys and values. `finish` reads the keys and
  // values of all rows, but only the queries and the residual stream from `acts`. It computes each row
  // independently.
  void project(const ForwardContext& pass, BlockActs& acts, const Residual& in) const;
  Residual finish(const ForwardContext& pass, BlockActs& acts) const;
  // Recomputes the activations that `backward` reads, starting from acts.x_in.
  void recompute(const ForwardContext& pass, BlockActs& acts) const;
  // On entry, d.x is the gradient of the layer's output. On return, d.x is the gradient of the layer's input.
  void backward(const BackwardContext& pass, const BlockActs& acts, BlockGrads& grads,
                ResidualGrads& d) const;

 private:
  // A sub-layer whose output is added to the residual stream.
  struct Branch {
    RandomSite site;
    int scale = -1;  // id of its scale parameter, or -1
  };
  void scale_input(const ForwardContext& pass, const BlockActs& acts) const;
  void scale_input_backward(const BackwardContext& pass, const BlockActs& acts, ResidualGrads& d) const;
  void attend(const ForwardContext& pass, BlockActs& acts) const;
  void feed_forward(const ForwardContext& pass, BlockActs& acts, const TensorView& in) const;
  void backward_pre(const BackwardContext& pass, const BlockActs& acts, BlockGrads& grads,
                    const TensorView& dx) const;
  void backward_post(const BackwardContext& pass, const BlockActs& acts, BlockGrads& grads,
                     const TensorView& dx) const;
  void finish_branch(const ForwardContext& pass, const Branch& branch, const TensorView& unscaled,
                     const TensorView& out) const;
  TensorView branch_gradient(const BackwardContext& pass, const Branch& branch, const TensorView& unscaled,
                             const TensorView& dx, BlockGrads& grads) const;

  bool pre_;
  double dropout_;
  int64_t layer_;
  int input_scale_, x0_scale_;  // parameter ids, or -1
  Branch attention_branch_, mlp_branch_;
  Norm norm1_, norm2_;
  SelfAttention attention_;
  Mlp mlp_;
};

}  // namespace gpt
