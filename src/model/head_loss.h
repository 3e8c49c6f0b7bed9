#pragma once

#include "model/objective.h"

namespace gpt {

// The head and the cross-entropy of a pass's hidden states in chunks of rows: the only logits that exist
// during training are those of one chunk.
class HeadLoss {
 public:
  // Reserves the logits of a chunk as one more of `memory`.
  static void plan(Planner& planner, const ModelConfig& config, std::deque<TensorView>& memory);
  // Writes call.losses, each times its weight [N] (null: 1); and with `backward` the gradients of the head
  // and dhidden. logits: what was planned. temperature: logits are divided by it.
  static void run(const ObjectiveCall& call, const TensorView& logits, DeviceSpan<const float> weights,
                  bool backward, double temperature = 1);
};

}  // namespace gpt
