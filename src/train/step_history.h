#pragma once

#include <vector>

#include "kernels/step_state.h"
#include "train/train_config.h"

namespace gpt {

// The step state of a run in a checkpoint, besides weights and optimizer state.
struct StepHistory {
  int64_t updates = 0;  // completed updates: steps that were not skipped
  LossScale loss_scale;
  std::vector<double> losses, norms;  // of the last steps that were not skipped, oldest first; with outlier_z
};

// Returns the initial loss scale of a run in this dtype.
LossScale initial_loss_scale(DType dtype);

StepState state_of(const StepHistory& history, const TrainConfig& config);
StepHistory history_of(const StepState& state);

// Returns the inputs of a step: its number, the seed and the learning rate.
StepInputs inputs_of(const TrainConfig& config, int64_t step);

}  // namespace gpt
