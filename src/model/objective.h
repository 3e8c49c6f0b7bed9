#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "model/forward.h"

namespace gpt {

// A batch of rows = B*T tokens, on the host.
struct TrainBatch {
  const int32_t* ids;              // [B,T]
  const int32_t* targets;          // [B,T], -1: does not count
  const float* weights = nullptr;  // [B,T], weight of each target, at least 0; null: 1
  const float* labels = nullptr;   // [B], one more value of each sample, for objectives that need one
  int64_t first_sample = 0;        // samples of this step before the batch, for dropout
  // If a row holds several sequences, none longer than T: positions [B,T] and all sequences in order. Else
  // each row is one sequence.
  const int32_t* positions = nullptr;
  std::span<const AttentionSeq> seqs = {};
};

// The targets of a batch, on the device.
struct DeviceTargets {
  DeviceSpan<const int32_t> targets;     // [N]
  DeviceSpan<const float> weights = {};  // [N] or absent
  DeviceSpan<const float> labels = {};   // [B] or absent
};

// The input and output of an objective.
struct ObjectiveCall {
  const ForwardContext& pass;
  const BackwardContext* backward;  // null: no gradients
  const Layers& layers;
  const DeviceTargets& targets;
  const std::deque<TensorView>& memory;  // as planned
  int first_param;                       // the id of the first of its own parameters
  TensorView hidden;                     // [N,C] hidden states after the final norm
  TensorView dhidden;                    // [N,C] gets the gradient of `hidden`
  DeviceSpan<const StepState> step;      // absent: gradients are not scaled
  TensorView losses;                     // [N] fp64, gets the loss of each row
};

// The function that training minimises: a loss of the hidden states of a batch, and its gradient. Gradients
// are multiplied with loss_scale * loss_weight of the step, where loss_weight is 1 / (the weight of all
// batches of the step); the loss of the step is the sum of `losses` times loss_weight. Has no mutable state.
class Objective {
 public:
  virtual ~Objective() = default;

  // Samples that belong together, as pairs or choices do: a micro-batch has whole groups of them.
  virtual int64_t group() const { return 1; }
  // Parameters of its own. They are trained, saved and resumed with the model's, but are no part of its
  // files.
  virtual std::vector<ParamSpec> parameters(const ModelConfig&) const { return {}; }
  // Whether it sets the gradient of the head's parameters. Where not, that of an output matrix stays zero.
  virtual bool uses_head() const { return true; }
  // Reserves what it needs during a pass.
  virtual void plan(Planner& planner, const ModelConfig& config, std::deque<TensorView>& memory) const = 0;
  // How much the rows of a batch count together.
  virtual double weight(const TrainBatch& batch, int64_t rows) const = 0;
  // Before the forward pass: `forward` gives the hidden states [N,C] without dropout and for no gradient,
  // until the next pass. For what a loss compares with.
  virtual void prepare(const ObjectiveCall&, const std::function<TensorView()>& forward) const {
    (void)forward;
  }
  virtual void run(const ObjectiveCall& call) const = 0;
};

// Cross-entropy of the next token. Weight: that of all targets which are not -1.
const Objective& language_modelling();

}  // namespace gpt
