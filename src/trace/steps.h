#pragma once

#include <string>
#include <vector>

#include "trace/capture.h"

namespace gpt {

// One step of a block as readers see it.
struct BlockStep {
  std::string name;  // "norm1.out"; the activation's name is "blocks.N." + this
  TensorView view;
  Shape shape;
  const char* about;  // in a few words
  double rms, low, high;
};

// The steps of a block in their order.
std::vector<BlockStep> block_steps(const Capture& capture, int64_t layer);

}  // namespace gpt
