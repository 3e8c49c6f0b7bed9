#pragma once

#include <cstddef>
#include <vector>

#include "train/train_step.h"

namespace gpt {

// Dynamic loss scaling for fp16 (Micikevicius et al. 2018, section 3.2): the loss is multiplied before the
// backward pass, so that small gradients do not become zero, and gradients are divided before the update. A
// step whose gradients overflow is skipped and halves the scale; kGrowEvery good steps in a row double it.
struct LossScale {
  static constexpr int64_t kGrowEvery = 2000;
  static constexpr double kLargest = 0x1p24;

  double scale = 1;        // 1 where no scaling is needed
  int64_t good_steps = 0;  // since the scale last changed
  int64_t overflows = 0;   // steps skipped so far

  static LossScale of(DType dtype) { return {.scale = dtype == DType::f16 ? 0x1p16 : 1}; }

  // Overflows although the gradients were not even multiplied: it is not the scale's fault.
  bool exhausted() const { return scale < 1; }
  void after_step(bool finite);
};

// Tells what is unusual after the last kWindow numbers.
struct OutlierDetector {
  static constexpr size_t kWindow = 128;

  // The mean and z standard deviations; infinity until there are enough numbers to tell, or if they are all
  // equal.
  double limit(double z) const;
  void add(double x);  // call for values that were not skipped

  std::vector<double> history = {};  // oldest first
};

// What the steps of a run leave to the next one, besides weights and what the optimizer keeps.
struct StepHistory {
  int64_t updates = 0;  // optimizer updates done: steps that were not skipped
  LossScale loss_scale;
  OutlierDetector losses, norms;  // for outlier_z

  // What is known of a step before it is made: learning rate, loss scale, and the limits beyond which
  // outlier_z skips it.
  StepState next(const TrainConfig& config, int64_t step) const;
  // To be told of a step's gradients. True where they overflow fp16, which changes the loss scale; throws
  // Error where the loss or a gradient is no number for another reason.
  bool overflows(const TrainConfig& config, TrainStep& step);
  // To be told of its update.
  void add(const TrainConfig& config, const TrainStep& step);
};

}  // namespace gpt
