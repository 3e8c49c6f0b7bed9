#pragma once

#include "train/optimizer.h"

namespace gpt {

// Of a parameter that decays, before its learning rate is scaled.
inline AdamWRule adamw_rule(const OptimizerSettings& s) {
  return {.beta1 = s.beta1, .beta2 = s.beta2, .eps = s.eps, .weight_decay = s.weight_decay};
}

}  // namespace gpt
