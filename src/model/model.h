#pragma once

#include <memory>
#include <vector>

#include "model/forward.h"
#include "model/weight_cache.h"

namespace gpt {

class WeightPages;

// Everything a model is: its config, its parameter table, its layers, and views of its weights.
struct Model {
  // Completes and validates the config; no weights yet. `more`: parameters behind the model's (objective.h).
  explicit Model(const ModelConfig& config, const std::vector<ParamSpec>& more = {});

  ModelConfig config;
  ParamTable table;
  Layers layers;
  std::vector<TensorView> weights;      // by parameter id; set by whoever owns the memory
  std::unique_ptr<WeightCache> packed;  // of the weights; never null
  WeightSource* source = nullptr;       // of weights that are not all in memory
  std::shared_ptr<WeightPages> pages;   // of the weights in mapped files; null: there are none
};

}  // namespace gpt
