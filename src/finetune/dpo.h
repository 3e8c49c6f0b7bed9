#pragma once

#include "finetune/task.h"

namespace gpt {

// Direct preference optimisation (Rafailov et al. 2023): samples in pairs, the chosen answer first. A batch's
// weights say which targets are the answer's, its labels the log-probability of the answer under the model
// that the run began with. The loss is the mean over the pairs.
class Preferences : public Objective {
 public:
  Preferences(int64_t n_ctx, double beta, double smoothing = 0)
      : n_ctx_(n_ctx), beta_(beta), smoothing_(smoothing) {}

  int64_t group() const override { return 2; }
  void plan(Planner& planner, const ModelConfig& config, std::deque<TensorView>& memory) const override;
  double weight(const TrainBatch& batch, int64_t rows) const override;
  void run(const ObjectiveCall& call) const override;

 private:
  int64_t n_ctx_;
  double beta_, smoothing_;
};

// JSON lines of "prompt", "chosen" and "rejected" (TRL's columns): texts, or lists of messages.
std::unique_ptr<Task> make_dpo_task(const TaskSources& sources);

}  // namespace gpt
