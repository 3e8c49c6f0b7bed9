#pragma once

#include <vector>

#include "kernels/step_state.h"
#include "train/train_config.h"

namespace gpt {

// The state of a run's steps besides weights and the state of the optimizer, as checkpoints store it.
struct StepHistory {
  int64_t updates = 0;  // completed updates: steps that were not skipped
  LossScale loss_scale;
  std::vector<double> losses, norms;  // of the last steps that were not skipped, oldest first; with outlier_z
};

// The loss scale that a run in this type starts with.
LossScale initial_loss_scale(DType dtype);

StepState state_of(const StepHistory& history, const TrainConfig& config);
StepHistory history_of(const StepState& state);

// The inputs of a step: its number, the seed and the learning rate.
StepInputs inputs_of(const TrainConfig& config, int64_t step);

}  // namespace gpt
