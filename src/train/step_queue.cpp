#include "train/step_queue.h"

#include "train/step_history.h"

namespace gpt {

StepQueue::StepQueue(TrainStep& step, const TrainConfig& config, BatchOfStep batch)
    : step_(step), config_(config), batch_(std::move(batch)), late_(step.runs_ahead() ? 1 : 0) {}

void StepQueue::make(int64_t step, const Hooks& hooks) {
  step_.compute_gradients(inputs_of(config_, step), batch_(step), hooks.before_micro_batch);
  if (hooks.before_update) hooks.before_update();
  step_.update();
  unread_.push_back(step_.snapshot());
}

std::optional<StepState> StepQueue::read(size_t late) {
  if (unread_.size() <= late) return std::nullopt;
  const StepState state = step_.read(unread_.front());
  unread_.pop_front();
  // After a halted step, all later steps are halted too. Finding the tensor with non-finite values requires
  // the batch of the halted step, so its gradients are computed again.
  if (state.halted) {
    unread_.clear();
    step_.compute_gradients(inputs_of(config_, state.step), batch_(state.step));
    require_not_halted(step_);
  }
  return state;
}

}  // namespace gpt
