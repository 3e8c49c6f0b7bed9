#pragma once

#include "finetune/task.h"

namespace gpt {

// The policy gradient objective (REINFORCE). The responses are sampled from the current model. If the
// baseline is the mean reward of a group of responses, this is GRPO (Shao et al. 2024), on-policy and without
// a KL term. The targets of a batch are the sampled tokens, and the weight of a target is the advantage of
// its response. The loss is -sum(advantage * log-probability) / (number of targets). Targets with advantage 0
// add nothing to the sum, but are included in the number of targets. Log-probabilities are computed from the
// logits divided by the sampling temperature.
class PolicyGradient : public Objective {
 public:
  explicit PolicyGradient(double temperature = 1) : temperature_(temperature) {}

  void plan(Planner& planner, const ModelConfig& config, std::deque<TensorView>& memory) const override;
  double weight(const TrainBatch& batch, int64_t rows) const override;
  void run(const ObjectiveCall& call) const override;

 private:
  double temperature_;
};

// Creates the GRPO task. Its data are JSON lines with "prompt" and "answer". Each step samples `rollouts`
// responses to each of its prompts.
std::unique_ptr<Task> make_grpo_task(const TaskSources& sources);

}  // namespace gpt
