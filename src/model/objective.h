#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "model/forward.h"

namespace gpt {

// A batch of B*T tokens in host memory.
struct TrainBatch {
  const int32_t* ids;              // [B,T]
  const int32_t* targets;          // [B,T]; -1: the target is ignored
  const float* weights = nullptr;  // [B,T] weight of each target, at least 0; null: 1
  const float* labels = nullptr;   // [B] a value per sample, for objectives that need one
  int64_t first_sample = 0;        // number of earlier samples in this step; part of the dropout key
  // Positions [B,T] and all sequences in order. Set only if a row contains several sequences, each with at
  // most T tokens. Otherwise, each row is one sequence.
  const int32_t* positions = nullptr;
  std::span<const AttentionSeq> seqs = {};
};

// The targets of a batch in device memory.
struct DeviceTargets {
  DeviceSpan<const int32_t> targets;     // [N]
  DeviceSpan<const float> weights = {};  // [N] or absent
  DeviceSpan<const float> labels = {};   // [B] or absent
};

// The inputs and outputs of an objective.
struct ObjectiveCall {
  const ForwardContext& pass;
  const BackwardContext* backward;  // null: no gradients are computed
  const Layers& layers;
  const DeviceTargets& targets;
  const std::deque<TensorView>& memory;  // views reserved by Objective::plan
  int first_param;                       // id of the objective's first parameter
  TensorView hidden;                     // [N,C] hidden states after the final norm
  TensorView dhidden;                    // [N,C] receives the gradient of `hidden`
  DeviceSpan<const StepState> step;      // absent: gradients are not scaled
  TensorView losses;                     // [N] fp64; receives the loss of each row
};

// An objective is the function that training minimizes. It computes a loss and its gradient from the hidden
// states of a batch. Gradients are multiplied by loss_scale * loss_weight of the step, where loss_weight is 1
// / (total weight of all batches in the step). The loss of the step is the sum of `losses` times loss_weight.
// An objective has no mutable state.
class Objective {
 public:
  virtual ~Objective() = default;

  // Returns the number of consecutive samples that belong together, such as pairs or choices. A micro-batch
  // only contains whole groups.
  virtual int64_t group() const { return 1; }
  // Returns additional parameters of the objective. These parameters are trained, saved and resumed with the
  // model parameters, but model files do not contain them.
  virtual std::vector<ParamSpec> parameters(const ModelConfig&) const { return {}; }
  // Returns true if the objective computes the gradient of the head. If it returns false, the gradient of the
  // output matrix stays zero.
  virtual bool uses_head() const { return true; }
  // Reserves the memory that the objective needs during a pass.
  virtual void plan(Planner& planner, const ModelConfig& config, std::deque<TensorView>& memory) const = 0;
  // Returns the total weight of the rows of a batch.
  virtual double weight(const TrainBatch& batch, int64_t rows) const = 0;
  // Called before the forward pass. An objective can call `forward` to compute reference values for its loss.
  // `forward` returns the hidden states [N,C] without dropout and gradients. These hidden states stay valid
  // until the next pass.
  virtual void prepare(const ObjectiveCall&, const std::function<TensorView()>& forward) const {
    (void)forward;
  }
  virtual void run(const ObjectiveCall& call) const = 0;
};

// Returns the objective that minimizes the cross-entropy of the next token. The weight of a batch is the
// total weight of all targets other than -1.
const Objective& language_modelling();

}  // namespace gpt
