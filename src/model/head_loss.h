#pragma once

#include "model/objective.h"

namespace gpt {

// Computes the head and the cross-entropy of hidden states in chunks of rows. During training, only the
// logits of one chunk exist at a time.
class HeadLoss {
 public:
  // Reserves the logits of one chunk as a new element of `memory`.
  static void plan(Planner& planner, const ModelConfig& config, std::deque<TensorView>& memory);
  // Writes call.losses, multiplied by the weight of each row [N] (null: 1). With `backward`, also computes
  // call.dhidden and the gradients of the head. logits: the view reserved by `plan`. temperature: divisor of
  // the logits.
  static void run(const ObjectiveCall& call, const TensorView& logits, DeviceSpan<const float> weights,
                  bool backward, double temperature = 1);
};

}  // namespace gpt
