#pragma once

#include <memory>
#include <vector>

#include "model/forward.h"
#include "model/weight_cache.h"

namespace gpt {

class WeightPages;

// A model: its config, parameter table, layers, and views of its weights.
struct Model {
  // Completes and validates the config. Does not set the weights. more: additional parameters, which follow
  // the model parameters in the table (objective.h).
  explicit Model(const ModelConfig& config, const std::vector<ParamSpec>& more = {});

  ModelConfig config;
  ParamTable table;
  Layers layers;
  std::vector<TensorView> weights;      // indexed by parameter id; set by the owner of the memory
  std::unique_ptr<WeightCache> packed;  // packed copies of the weights; never null
  WeightSource* source = nullptr;       // loads weights that are not all in memory; null if all are in memory
  std::shared_ptr<WeightPages> pages;   // memory-mapped weights; null if there are none
};

}  // namespace gpt
