#pragma once

#include "train/optimizer.h"

namespace gpt {

// Returns the rule for a parameter with weight decay, before any scaling of its learning rate.
inline AdamWRule adamw_rule(const OptimizerSettings& s) {
  return {.beta1 = s.beta1, .beta2 = s.beta2, .eps = s.eps, .weight_decay = s.weight_decay};
}

}  // namespace gpt
