#pragma once

#include "train/optimizer.h"

namespace gpt {

// Returns the AdamW rule for parameters that have weight decay. The learning rate factor of the rule is 1.
inline AdamWRule adamw_rule(const OptimizerSettings& s) {
  return {.beta1 = s.beta1, .beta2 = s.beta2, .eps = s.eps, .weight_decay = s.weight_decay};
}

}  // namespace gpt
