#pragma once

#include <cstdint>

#include "model/param_table.h"

namespace gpt {

// Loads the weights of one layer at a time, for models whose weights are not all in memory. The caller must
// call `begin` before it reads the weights of a layer. `layer` is a layer index, kEmbeddings, or n_layer for
// the parameters after the layers. The weights stay available until `begin` is called for a different layer.
// `next` is the layer that is read next; its weights may be loaded in advance.
class WeightSource {
 public:
  static constexpr int64_t kEmbeddings = -1;
  static int64_t layer_of(const ParamSpec& spec, int64_t n_layer) {
    if (spec.layer >= 0) return spec.layer;
    return spec.role == Role::wte || spec.role == Role::wpe ? kEmbeddings : n_layer;
  }

  virtual ~WeightSource() = default;
  virtual void begin(int64_t layer, int64_t next) = 0;
};

}  // namespace gpt
