#pragma once

#include <vector>

#include "model/layers/block.h"
#include "model/layers/embedding.h"
#include "model/layers/head.h"

namespace gpt {

// The modules of a decoder: embedding, layers and head. The modules do not store weights. The weights are
// passed in the ForwardContext.
struct Layers {
  Layers(const ModelConfig& config, const ParamTable& table);

  std::vector<RopeConfig> ropes;  // distinct rotary settings of the layers
  Embedding embedding;
  std::vector<Block> blocks;
  Head head;
  int64_t middle_layer;  // see ModelConfig::middle_layer
};

// The memory for the activations of a forward pass through all layers.
class Activations {
 public:
  // Reserves the memory. With `recompute`, only the input of each layer is kept for the backward pass, which
  // recomputes all other activations.
  void plan(Planner& planner, const ModelConfig& config, const std::vector<LayerConfig>& layers,
            bool recompute);
  // Sets the views that several layers use. Must be called after Planner::commit.
  void set_shared_views();

  // Returns the first `rows` rows of a layer's activations. If layers share memory, the memory contains the
  // activations of the layer that ran last.
  BlockActs block(size_t layer, int64_t rows) const;
  // Returns the view that receives the output of the embedding.
  TensorView input(int64_t rows) const { return (x0_ ? x0_ : residual_.front()).slice_rows(0, rows); }

  EmbeddingActs embedding;
  HeadActs head;
  AdapterMemory adapter;

 private:
  void plan_blocks(Planner& planner, const std::vector<LayerConfig>& layers, bool each);
  void plan_shared_kv(Planner& planner, const std::vector<LayerConfig>& layers);

  // Input of each layer and output of the last layer, [n_layer + 1]. In inference, all layers share one view.
  std::vector<TensorView> residual_;
  std::vector<BlockActs> blocks_;  // one per layer, or one per distinct layer config if layers share memory
  std::vector<size_t> block_of_;   // index in blocks_ for each layer
  std::vector<TensorView> shared_qkv_;  // qkv by layer; absent if no later layer reads its keys and values
  std::vector<size_t> kv_owner_;        // for each layer, the layer that owns its keys and values
  TensorView x0_;                       // output of the embedding, if the residual stream is overwritten
  TensorView attention_out_, mlp_out_;
};

// Runs all layers. Training, inference and tracing share this forward pass. Returns the input of the output
// matrix, [rows,C]. If batch.output_rows is set, returns only these rows. Returns an absent view if
// batch.output_rows is an empty list.
TensorView run_layers(const ForwardContext& pass, const Layers& layers, Activations& acts);

}  // namespace gpt
