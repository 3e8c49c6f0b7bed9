#pragma once

#include <deque>
#include <functional>
#include <optional>

#include "train/train_step.h"

namespace gpt {

// Runs consecutive training steps. With a GPU, the device computes the newest step while the host reads the
// result of the previous step. On the CPU and with several ranks, the host reads the result of each step
// immediately.
class StepQueue {
 public:
  // Returns the function that fills the batch of a step. The queue calls it once per step, and a second time
  // for a step that halted the run.
  using BatchOfStep = std::function<TrainStep::FillBatch(int64_t step)>;
  struct Hooks {
    std::function<void()> before_micro_batch = {};  // may throw; the weights are then unchanged
    std::function<void()> before_update = {};       // called when the gradients are complete
  };

  // `step` and `config` must outlive the queue.
  StepQueue(TrainStep& step, const TrainConfig& config, BatchOfStep batch);

  // Computes the gradients of a step, counted from 0, and updates the weights.
  void make(int64_t step, const Hooks& hooks);
  // Returns the state after the oldest unread step. Returns nothing if at most `late` steps are unread.
  // Throws Error if the oldest unread step halted the run.
  std::optional<StepState> read(size_t late);
  int64_t unread() const { return std::ssize(unread_); }
  // Returns the number of steps that the device may be ahead of the host.
  size_t late() const { return late_; }

 private:
  TrainStep& step_;
  const TrainConfig& config_;
  BatchOfStep batch_;
  size_t late_;
  std::deque<TrainStep::Snapshot> unread_;
};

}  // namespace gpt
