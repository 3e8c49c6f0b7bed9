#pragma once

#include <cstdint>
#include <limits>

namespace gpt {

// The scalars that the host sets for each training step.
struct StepInputs {
  int64_t step = 0;  // step number, from 0; selects the dropout masks together with the seed
  uint64_t seed = 0;
  double lr = 0;
  double loss_weight = 0;  // 1 / (sum of the target weights of the whole step)
  double clip_norm = 0;    // 0: no clipping
};

// A sliding window of the last kSize values of a scalar.
struct ScalarWindow {
  static constexpr int64_t kSize = 128;
  double values[kSize] = {};  // ring buffer: value i is stored at i % kSize
  int64_t count = 0;          // number of values stored so far
};

// Dynamic loss scaling for fp16 (Micikevicius et al. 2018, section 3.2). The loss is multiplied by the scale
// before the backward pass, so that small gradients do not underflow. Gradients are divided by the scale
// before the update. If the gradients of a step overflow, the step is skipped and the scale is halved. After
// kGrowEvery consecutive good steps, the scale is doubled.
struct LossScale {
  static constexpr int64_t kGrowEvery = 2000;
  static constexpr double kLargest = 0x1p24;

  bool dynamic = false;
  double scale = 1;        // scale of the next step; always 1 if not dynamic
  int64_t good_steps = 0;  // number of good steps since the scale last changed
  int64_t overflows = 0;   // number of steps skipped because of an overflow
};

// State of a training run. Ops read and update this state in device memory, so that the host does not have to
// wait for values. begin_step starts a step. finalize_grad_norm decides whether the weights are updated, and
// computes the factor for the gradients.
struct StepState {
  // State of the current step.
  int64_t step = 0;
  uint64_t seed = 0;
  double lr = 0;
  double loss_scale = 1;  // factor of the loss in the backward pass
  double loss_weight = 0;
  double clip_norm = 0;
  double max_loss = std::numeric_limits<double>::infinity();  // a step with a larger loss is skipped
  double max_norm = std::numeric_limits<double>::infinity();
  double loss = 0;        // sum over the targets; after finalize_grad_norm the mean over the targets
  double norm = 0;        // gradient norm before clipping, without loss_scale
  double grad_scale = 0;  // factor of the gradients in the update: clip factor / loss_scale; 0: step is
                          // skipped

  // State that persists from step to step.
  int64_t updates = 0;  // number of completed updates
  LossScale scaling;
  double outlier_z = 0;        // a step is skipped if it is this many standard deviations above the mean; 0:
                               // off
  ScalarWindow losses, norms;  // values of recent steps that were not skipped; used only with outlier_z
  // True if the loss or a gradient was NaN or infinite for a reason other than loss scaling. No later step
  // updates the weights.
  bool halted = false;
};

}  // namespace gpt
