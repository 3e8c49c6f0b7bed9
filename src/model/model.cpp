#include "model/model.h"

namespace gpt {
namespace {

ModelConfig completed(ModelConfig config) {
  complete(config);
  return config;
}

}  // namespace

Model::Model(const ModelConfig& c)
    : config(completed(c)), table(config), layers(config, table), packed(std::make_unique<WeightCache>()) {}

}  // namespace gpt
