#pragma once

#include <cstdint>

#include "model/param_table.h"

namespace gpt {

// Weights that are not all in memory. Whoever reads those of a layer says so: a block, kEmbeddings, or
// n_layer for what comes behind the blocks. They are there until another layer begins, and those of `next`
// may be on their way then.
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
