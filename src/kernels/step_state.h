#pragma once

#include <cstdint>
#include <limits>

namespace gpt {

// The scalars that the host sets for a step.
struct StepInputs {
  int64_t step = 0;  // counts from 0; selects dropout masks, with the seed
  uint64_t seed = 0;
  double lr = 0;
  double loss_weight = 0;  // 1 / (sum of the target weights of the whole step)
  double clip_norm = 0;    // 0: off
};

// The last kSize values of a scalar.
struct ScalarWindow {
  static constexpr int64_t kSize = 128;
  double values[kSize] = {};  // value i of all at i % kSize
  int64_t count = 0;          // of all values so far
};

// Dynamic loss scaling for fp16 (Micikevicius et al. 2018, section 3.2): the loss is multiplied before the
// backward pass, so that small gradients do not become zero, and gradients are divided before the update. A
// step whose gradients overflow is skipped and halves the scale; kGrowEvery good steps in a row double it.
struct LossScale {
  static constexpr int64_t kGrowEvery = 2000;
  static constexpr double kLargest = 0x1p24;

  bool dynamic = false;
  double scale = 1;        // of the next step; stays 1 if not dynamic
  int64_t good_steps = 0;  // since the scale last changed
  int64_t overflows = 0;   // steps that were skipped
};

// The state of the steps of a run, in device memory: ops read and write it, so that the host need not wait
// for any of its values. begin_step starts a step; finalize_grad_norm decides what becomes of it.
struct StepState {
  // Of the step.
  int64_t step = 0;
  uint64_t seed = 0;
  double lr = 0;
  double loss_scale = 1;  // factor of the loss in the backward pass
  double loss_weight = 0;
  double clip_norm = 0;
  double max_loss = std::numeric_limits<double>::infinity();  // a step with a larger loss is skipped
  double max_norm = std::numeric_limits<double>::infinity();
  double loss = 0;        // sum over the targets; their mean after finalize_grad_norm
  double norm = 0;        // of the gradients, without loss_scale, before clipping
  double grad_scale = 0;  // factor of the gradients in the update: clip factor / loss_scale; 0: skipped step

  // From step to step.
  int64_t updates = 0;  // completed updates
  LossScale scaling;
  double outlier_z = 0;        // steps this many standard deviations above the mean are skipped; 0: off
  ScalarWindow losses, norms;  // of the steps that were not skipped, with outlier_z
  // The loss or a gradient was NaN or infinite, and loss scaling is not the cause: no later step updates
  // anything.
  bool halted = false;
};

}  // namespace gpt
