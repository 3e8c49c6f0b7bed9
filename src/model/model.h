#pragma once

#include <memory>
#include <vector>

#include "model/forward.h"
#include "model/weight_cache.h"

namespace gpt {

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
