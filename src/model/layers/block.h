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
};

// Gradients inside a block; one set serves all blocks.
struct BlockGrads {
  TensorView dnorm;    // [N,C] gradient of a norm's output
  TensorView dbranch;  // [N,C] gradient of a sub-layer's output, where dropout makes it differ
  AttentionGrads attention;
  MlpGrads mlp;
};

// One decoder block. With pre-norm its result is x_mid + mlp_out, a sum that is left to the norm that reads
// it next; with post-norm it is x_out.
class Block {
 public:
  Block(const ModelConfig& config, const ParamTable& table, int64_t layer);

  // acts.x_in holds the input; or, where `branch` is present, the input is x + branch and is stored there.
  void forward(const Pass& pass, BlockActs& acts, const TensorView& x, const TensorView& branch) const {
    project(pass, acts, x, branch);
    finish(pass, acts);
  }
  // The two halves of `forward`. The first ends with queries, keys and values; of what it leaves in acts the
  // second reads the queries and x_in, and treats each row by itself.
  void project(const Pass& pass, BlockActs& acts, const TensorView& x, const TensorView& branch) const;
  void finish(const Pass& pass, BlockActs& acts) const;
  // dx [N,C]: gradient of the output on entry, of the input on return.
  void backward(const Pass& pass, const BlockActs& acts, BlockGrads& grads, const TensorView& dx) const;

 private:
  void finish_pre(const Pass& pass, BlockActs& acts) const;
  void finish_post(const Pass& pass, BlockActs& acts) const;
  void backward_pre(const Pass& pass, const BlockActs& acts, BlockGrads& grads, const TensorView& dx) const;
  void backward_post(const Pass& pass, const BlockActs& acts, BlockGrads& grads, const TensorView& dx) const;
  void drop(const Pass& pass, RandomSite site, const TensorView& x) const;
  TensorView drop_gradient(const Pass& pass, RandomSite site, const TensorView& dx, BlockGrads& grads) const;

  int64_t layer_;
  Norm norm1_, norm2_;
  SelfAttention attention_;
  Mlp mlp_;
};

// Reserves one block's activations. What backward reads goes first; `scratch` is what it does not.
void plan_block_saved(Planner& planner, BlockActs& acts, const ModelConfig& config, int64_t rows,
                      bool training);
void plan_block_scratch(Planner& planner, BlockActs& acts, const ModelConfig& config, int64_t rows);
void plan_block_grads(Planner& planner, BlockGrads& grads, const ModelConfig& config, int64_t rows);

}  // namespace gpt
