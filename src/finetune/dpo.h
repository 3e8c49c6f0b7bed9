#pragma once

#include "finetune/task.h"

namespace gpt {

// Direct preference optimization (Rafailov et al. 2023). Samples come in pairs, with the chosen response
// first. The weights of a batch are nonzero for the targets that belong to the response. The label of a
// sample is the log-probability that the initial model of the run assigns to the response. The loss is the
// mean over the pairs.
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

// Creates the DPO task. Its data are JSON lines with "prompt", "chosen" and "rejected" (the columns of TRL).
// Each value is a text or a list of messages.
std::unique_ptr<Task> make_dpo_task(const TaskSources& sources);

}  // namespace gpt
