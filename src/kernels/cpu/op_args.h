#pragma once

// Helper functions that read the arguments of CPU ops.

#include "kernels/kernel_table.h"
#include "kernels/unwrap.h"

namespace gpt {

// Runs the scalar reference of an op whose kernels do not support the given arguments.
template <class Args>
void fall_back(const ExecContext& ctx, const char* op, void (*reference)(const ExecContext&, const Args&),
               const Args& args) noexcept {
  ctx.device.on_fallback(op);
  reference(ctx, args);
}

// Returns the Philox key of a dropout site in the current step.
inline uint64_t key_of(const DropoutKey& dropout) {
  const StepState& step = *unwrap(dropout.step);
  return dropout_key(step.seed, static_cast<uint64_t>(step.step), static_cast<uint32_t>(dropout.site),
                     dropout.layer);
}

// Returns the factor by which the gradient of the logits is multiplied.
inline double loss_factor(DeviceSpan<const StepState> step) {
  return step ? unwrap(step)->loss_scale * unwrap(step)->loss_weight : 1;
}

inline double row_weight(const CrossEntropyArgs& a, int64_t n) {
  if (unwrap(a.targets)[n] < 0) return 0;
  return a.weights ? double{unwrap(a.weights)[n]} : 1;
}

inline int64_t picked_row(const PickedRows& p, int64_t sample) {
  const auto n = static_cast<int64_t>(p.ids.size()) / p.samples, last = (sample + 1) * n - 1;
  for (int64_t row = last; row > last - n; --row) {
    if (unwrap(p.ids)[row] == p.id) return row;
  }
  return last;
}

}  // namespace gpt
