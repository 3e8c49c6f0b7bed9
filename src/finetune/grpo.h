#pragma once

#include "finetune/task.h"

namespace gpt {

// The policy gradient of answers that the model itself has given just before (REINFORCE; with group means for
// a baseline GRPO, Shao et al. 2024, on-policy and without a KL term). A batch's weights say which targets
// the model gave; its labels how much better an answer was than the others to its prompt. The loss is
// -sum(label * log-probability) over these targets / their number.
const Objective& policy_gradient();

// JSON lines of "prompt" and "answer". Each step draws `rollouts` answers to each of its prompts.
std::unique_ptr<Task> make_grpo_task(const TaskSources& sources);

}  // namespace gpt
