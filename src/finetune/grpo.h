#pragma once

#include "finetune/task.h"

namespace gpt {

// The policy gradient of responses that the model itself has just sampled (REINFORCE; with group means as the
// baseline GRPO, Shao et al. 2024, on-policy and without a KL term). The targets of a batch are the sampled
// tokens, its weights the advantages of their responses. The loss is -sum(advantage * log-probability) /
// (number of targets): targets of advantage 0 add nothing to the sum and count in the number.
// Log-probabilities are those of the logits divided by the sampling temperature.
class PolicyGradient : public Objective {
 public:
  explicit PolicyGradient(double temperature = 1) : temperature_(temperature) {}

  void plan(Planner& planner, const ModelConfig& config, std::deque<TensorView>& memory) const override;
  double weight(const TrainBatch& batch, int64_t rows) const override;
  void run(const ObjectiveCall& call) const override;

 private:
  double temperature_;
};

// JSON lines of "prompt" and "answer". Each step samples `rollouts` responses to each of its prompts.
std::unique_ptr<Task> make_grpo_task(const TaskSources& sources);

}  // namespace gpt
