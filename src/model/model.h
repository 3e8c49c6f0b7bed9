#pragma once

#include <memory>
#include <vector>

#include "model/layers/block.h"
#include "model/layers/embedding.h"
#include "model/layers/head.h"
#include "model/weight_cache.h"

namespace gpt {

// The layers of one decoder: embedding, blocks, head. Holds no numbers; weights come with the Pass.
class Layers {
 public:
  Layers(const ModelConfig& config, const ParamTable& table);

  Embedding embedding;
  std::vector<Block> blocks;
  Head head;
};

// Everything a model is: its config, its parameter table, its layers, and views of its weights.
struct Model {
  explicit Model(const ModelConfig& config);  // completes and validates the config; no weights yet

  ModelConfig config;
  ParamTable table;
  Layers layers;
  std::vector<TensorView> weights;      // by parameter id; set by whoever owns the memory
  std::unique_ptr<WeightCache> packed;  // of the weights; never null
};

}  // namespace gpt
