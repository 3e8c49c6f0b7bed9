#pragma once

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"

namespace gpt {

// What a block leaves for its backward pass. The residual stream is named by where it is:
//   pre-norm:  x_in -> norm1 -> attention -> (+) x_mid -> norm2 -> mlp -> (+) x_out
//   post-norm: x_in -> attention -> (+) x_mid -> norm1 -> norm1_out -> mlp -> (+) x_sum -> norm2 -> x_out
struct BlockActs {
  TensorView x_in;   // [N,C] saved even when the rest is recomputed
  TensorView x_out;  // [N,C] x_in of the next block; written here with post-norm only
  TensorView norm1_out, norm2_out, x_mid, x_sum;
  TensorView attention_out, mlp_out;  // [N,C]; shared by all layers
  NormStats norm1, norm2;
  AttentionActs attention;
  MlpActs mlp;

  // All but x_in, x_out and what layers share.
  void plan(Planner& planner, const ModelConfig& config);
  // Of the first `rows` rows.
  BlockActs first_rows(int64_t rows) const;
};

// Gradients inside a block; one set serves all blocks.
struct BlockGrads {
  TensorView dnorm;    // [N,C] gradient of a norm's output
  TensorView dbranch;  // [N,C] gradient of a sub-layer's output, where dropout makes it differ
  AttentionGrads attention;
  MlpGrads mlp;
  void plan(Planner& planner, const ModelConfig& config);
};

// One decoder block.
class Block {
 public:
  Block(const ModelConfig& config, const ParamTable& table, int64_t layer);

  // Stores the stream that comes in in acts.x_in and returns the one that goes out: x_mid + mlp_out with
  // pre-norm, x_out with post-norm.
  Residual forward(const ForwardContext& pass, BlockActs& acts, const Residual& in) const {
    project(pass, acts, in);
    return finish(pass, acts);
  }
  // The two halves of `forward`. The first ends with queries, keys and values; of what it leaves in acts the
  // second reads the queries and x_in, and treats each row by itself.
  void project(const ForwardContext& pass, BlockActs& acts, const Residual& in) const;
  Residual finish(const ForwardContext& pass, BlockActs& acts) const;
  // Computes again, from acts.x_in, what `backward` reads.
  void recompute(const ForwardContext& pass, BlockActs& acts) const;
  // dx [N,C]: gradient of the output on entry, of the input on return.
  void backward(const ForwardContext& pass, const BlockActs& acts, BlockGrads& grads,
                const TensorView& dx) const;

 private:
  void attend(const ForwardContext& pass, BlockActs& acts) const;
  void feed_forward(const ForwardContext& pass, BlockActs& acts, const TensorView& in) const;
  void backward_pre(const ForwardContext& pass, const BlockActs& acts, BlockGrads& grads,
                    const TensorView& dx) const;
  void backward_post(const ForwardContext& pass, const BlockActs& acts, BlockGrads& grads,
                     const TensorView& dx) const;
  void drop(const ForwardContext& pass, RandomSite site, const TensorView& x) const;
  TensorView drop_gradient(const ForwardContext& pass, RandomSite site, const TensorView& dx,
                           BlockGrads& grads) const;

  int64_t layer_;
  Norm norm1_, norm2_;
  SelfAttention attention_;
  Mlp mlp_;
};

}  // namespace gpt
