#include "model/model.h"

namespace gpt {
namespace {

ModelConfig completed(ModelConfig config) {
  complete(config);
  return config;
}

}  // namespace

Layers::Layers(const ModelConfig& c, const ParamTable& table) : embedding(c, table), head(c, table) {
  for (int64_t layer = 0; layer < c.n_layer; ++layer)
    blocks.emplace_back(c, table, layer);
}

Model::Model(const ModelConfig& c)
    : config(completed(c)), table(config), layers(config, table), packed(std::make_unique<WeightCache>()) {}

}  // namespace gpt
