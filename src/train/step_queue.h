#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "train/train_step.h"

namespace gpt {

// Runs consecutive steps. A device computes the newest step while the host reads the result of the previous
// one. On the CPU, and with several ranks, the result of each step is read immediately.
class StepQueue {
 public:
  // Returns the function that writes the batch of a step. Called once for each step, and again for a step
  // that halted the run.
  using BatchOfStep = std::function<TrainStep::FillBatch(int64_t step)>;
  struct Hooks {
    std::function<void()> before_micro_batch = {};  // may throw; then the weights are unchanged
    std::function<void()> before_update = {};       // called when the gradients are complete
  };

  // `step` and `config` must outlive the queue.
  StepQueue(TrainStep& step, const TrainConfig& config, BatchOfStep batch);

  // Computes the gradients of a step, counted from 0, and updates the weights.
  void make(int64_t step, const Hooks& hooks);
  // Returns the state after the oldest unread step; nothing if at most `late` steps are unread. Throws Error
  // if that step halted the run.
  std::optional<StepState> read(size_t late);
  int64_t unread() const { return std::ssize(unread_); }
  // The number of steps that the device may be ahead of the host.
  size_t late() const { return late_; }

 private:
  TrainStep& step_;
  const TrainConfig& config_;
  BatchOfStep batch_;
  size_t late_;
  std::deque<TrainStep::Snapshot> unread_;
};

}  // namespace gpt
