#pragma once

#include "model/objective.h"

namespace gpt {

// Computes logits and cross-entropy losses from hidden states, one chunk of rows at a time. Only the logits
// of the current chunk are in memory.
class HeadLoss {
 public:
  // Reserves memory for the logits of one chunk and appends the view to `memory`.
  static void plan(Planner& planner, const ModelConfig& config, std::deque<TensorView>& memory);
  // Writes the loss of each row to call.losses. weights: factors of the losses, [N]; null: 1. With
  // `backward`, also computes call.dhidden and the gradients of the head. logits: the view reserved by
  // `plan`. temperature: divisor of the logits.
  static void run(const ObjectiveCall& call, const TensorView& logits, DeviceSpan<const float> weights,
                  bool backward, double temperature = 1);
};

}  // namespace gpt
