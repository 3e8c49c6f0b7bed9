#include "model/model.h"

namespace gpt {
namespace {

ModelConfig completed(ModelConfig config) {
  complete(config);
  return config;
}

}  // namespace

Model::Model(const ModelConfig& c, const std::vector<ParamSpec>& more)
    : config(completed(c)),
      table(config, more),
      layers(config, table),
      packed(std::make_unique<WeightCache>()) {}

}  // namespace gpt
