#pragma once

#include "train/optimizer.h"

namespace gpt {

// What AdamW does to a parameter.
struct AdamWRule {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double lr_scale = 1;
};
inline AdamWRule adamw_rule(const OptimizerSettings& s) {
  return {.beta1 = s.beta1, .beta2 = s.beta2, .eps = s.eps, .weight_decay = s.weight_decay};
}

// How much a parameter changed in an update, from what it and its moments are after it.
UpdateSquares adamw_change(const AdamWRule& rule, const TensorView& weight, const TensorView& m,
                           const TensorView& v, const StepState& step);

}  // namespace gpt
