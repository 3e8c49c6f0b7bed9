#pragma once

#include "train/optimizer.h"

namespace gpt {

// The settings of AdamW for a parameter.
struct AdamWRule {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double lr_scale = 1;
};
inline AdamWRule adamw_rule(const OptimizerSettings& s) {
  return {.beta1 = s.beta1, .beta2 = s.beta2, .eps = s.eps, .weight_decay = s.weight_decay};
}

// Calls the op update_squares: sums [2 ranges] gets the sums of squares of the last update of each range of
// `param`, with moments m and v, and of its weights.
void update_squares(const ExecContext& ctx, const AdamWRule& rule, const TensorView& param,
                    const TensorView& m, const TensorView& v, std::span<const AdamWRange> ranges,
                    DeviceSpan<const StepState> step, DeviceSpan<double> sums);

}  // namespace gpt
