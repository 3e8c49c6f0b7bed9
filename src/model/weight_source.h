#pragma once

#include <cstdint>

#include "model/param_table.h"

namespace gpt {

// Provides weights that are not all in memory. Before it reads the weights of a layer, a caller must announce
// the layer: a layer index, kEmbeddings, or n_layer for the parameters after the layers. The weights of the
// layer are available until a different layer is announced. The weights of `next` may be loaded in the
// meantime.
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
