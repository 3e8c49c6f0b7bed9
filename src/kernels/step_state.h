#pragma once

#include <cstdint>
#include <limits>

namespace gpt {

// The scalars of a training step, in device memory: the host sets the first ones before the step, ops write
// the others and read both, so that the host need not wait for any of them.
struct StepState {
  int64_t step = 0;  // counts from 0; selects dropout masks, with the seed
  uint64_t seed = 0;
  double lr = 0;
  double loss_scale = 1;   // factor of the loss in the backward pass
  double loss_weight = 0;  // 1 / (sum of the target weights of the whole step)
  double clip_norm = 0;    // 0: off
  double max_loss = std::numeric_limits<double>::infinity();  // a step with a larger loss is skipped
  double max_norm = std::numeric_limits<double>::infinity();
  int64_t updates = 0;  // completed updates; finalize_grad_norm adds one unless it skips the step

  double loss = 0;        // sum over the targets; their mean after finalize_grad_norm
  double norm = 0;        // of the gradients, without loss_scale, before clipping
  double grad_scale = 0;  // factor of the gradients in the update: clip factor / loss_scale; 0: skipped step
};

}  // namespace gpt
