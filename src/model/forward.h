#pragma once

#include <vector>

#include "model/layers/block.h"
#include "model/layers/embedding.h"
#include "model/layers/head.h"

namespace gpt {

// The layers of one decoder: embedding, blocks, head. Holds no numbers; weights come with the ForwardContext.
struct Layers {
  Layers(const ModelConfig& config, const ParamTable& table);

  std::vector<RopeConfig> ropes;  // the rotary tables that the blocks read
  Embedding embedding;
  std::vector<Block> blocks;
  Head head;
  int64_t middle_layer;  // of ModelConfig
};

// The memory that a pass through the layers works in.
class Activations {
 public:
  // With `recompute` the backward pass finds each block's input, and computes the rest again.
  void plan(Planner& planner, const ModelConfig& config, const std::vector<LayerConfig>& layers,
            bool recompute);
  // After the planner's commit.
  void set_shared_views();

  // What belongs to a block, the first `rows` rows of it. Where blocks take turns in the same memory, it is
  // the newest one's.
  BlockActs block(size_t layer, int64_t rows) const;
  // Where the embedding goes.
  TensorView input(int64_t rows) const { return (x0_ ? x0_ : residual_.front()).slice_rows(0, rows); }

  EmbeddingActs embedding;
  HeadActs head;
  AdapterMemory adapter;

 private:
  void plan_blocks(Planner& planner, const std::vector<LayerConfig>& layers, bool each);
  void plan_shared_kv(Planner& planner, const std::vector<LayerConfig>& layers);

  std::vector<TensorView>
      residual_;  // [n_layer + 1] what goes into each block, and out of the last; or one for all
  std::vector<BlockActs> blocks_;       // one per block; or one for blocks of the same kind, all in one place
  std::vector<size_t> block_of_;        // by layer
  std::vector<TensorView> shared_qkv_;  // by layer; absent where no later layer reads keys and values
  std::vector<size_t> kv_owner_;        // by layer
  TensorView x0_;                       // the embedding, where the residual stream may not be kept
  TensorView attention_out_, mlp_out_;
};

// Runs the layers: the one forward pass of training, inference and trace. Returns what the head's matrix
// reads, [rows,C], or of the kept rows alone; absent when none is kept.
TensorView run_layers(const ForwardContext& pass, const Layers& layers, Activations& acts);

}  // namespace gpt
