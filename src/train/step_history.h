#pragma once

#include <vector>

#include "kernels/step_state.h"
#include "train/train_config.h"

namespace gpt {

// Stores the part of the training state that is neither weights nor optimizer state, for checkpoints.
struct StepHistory {
  int64_t updates = 0;  // number of completed optimizer updates, without skipped steps
  LossScale loss_scale;
  // Losses and gradient norms of the most recent steps that were not skipped, oldest first. Used if
  // `outlier_z` is set.
  std::vector<double> losses, norms;
};

// Returns the initial loss scale for this dtype.
LossScale initial_loss_scale(DType dtype);

StepState state_of(const StepHistory& history, const TrainConfig& config);
StepHistory history_of(const StepState& state);

// Returns the inputs of a step: the step number, the seed and the learning rate.
StepInputs inputs_of(const TrainConfig& config, int64_t step);

}  // namespace gpt
