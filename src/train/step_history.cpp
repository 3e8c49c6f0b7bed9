#include "train/step_history.h"

#include <algorithm>

#include "train/schedule.h"

namespace gpt {
namespace {

ScalarWindow window_of(const std::vector<double>& values) {
  ScalarWindow window;
  for (const double x : values)
    window.values[window.count++ % ScalarWindow::kSize] = x;
  return window;
}

std::vector<double> values_of(const ScalarWindow& window) {
  std::vector<double> values;
  for (int64_t i = std::max<int64_t>(0, window.count - ScalarWindow::kSize); i < window.count; ++i)
    values.push_back(window.values[i % ScalarWindow::kSize]);
  return values;
}

}  // namespace

LossScale initial_loss_scale(DType dtype) {
  const bool dynamic = dtype == DType::f16;
  return {.dynamic = dynamic, .scale = dynamic ? 0x1p16 : 1};
}

StepState state_of(const StepHistory& history, const TrainConfig& c) {
  StepState state{.updates = history.updates,
                  .scaling = history.loss_scale,
                  .outlier_z = c.outlier_z,
                  .losses = window_of(history.losses),
                  .norms = window_of(history.norms)};
  state.scaling.dynamic = c.dtype == TrainDType::fp16;
  return state;
}

StepHistory history_of(const StepState& state) {
  return {.updates = state.updates,
          .loss_scale = state.scaling,
          .losses = values_of(state.losses),
          .norms = values_of(state.norms)};
}

StepInputs inputs_of(const TrainConfig& c, int64_t step) {
  return {.step = step, .seed = static_cast<uint64_t>(c.seed), .lr = learning_rate(c, step)};
}

}  // namespace gpt
