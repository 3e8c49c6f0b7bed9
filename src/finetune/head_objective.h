#pragma once

#include "model/objective.h"

namespace gpt {

// The loss of a task whose head reads one position of each sample, the last one with a token of its own, and
// beside it the loss of the language model on the same text (Radford et al. 2018, 3.2, L3 = L2 + lambda L1).
// How the batch has it: every sample has an `extract` token; the label of an example stands at its first
// sample, and what the example counts is the weight at that sample's extract token. The weights of all other
// tokens are those of the language model's loss, lambda included.
struct HeadShape {
  enum class Answer : uint8_t {
    label,   // [outputs,C]: one logit for each label
    number,  // [1,C]: the answer itself
    choice   // [1,C]: of the samples of an example the one with the highest score
  };
  Answer answer = Answer::label;
  int64_t outputs = 1;    // rows of the head's matrix
  int64_t samples = 1;    // of an example: the choices; or those whose hidden states are added up
  int32_t extract = -1;   // the token
  double dropout = 0.1;   // of what the head reads
  bool auxiliary = true;  // whether there is a language model's loss
};

class HeadObjective : public Objective {
 public:
  explicit HeadObjective(const HeadShape& shape) : shape_(shape) {}

  const HeadShape& shape() const { return shape_; }
  int64_t group() const override { return shape_.samples; }
  bool uses_head() const override { return shape_.auxiliary; }
  std::vector<ParamSpec> parameters(const ModelConfig& config) const override;
  void plan(Planner& planner, const ModelConfig& config, std::deque<TensorView>& memory) const override;
  double weight(const TrainBatch& batch, int64_t rows) const override;
  void run(const ObjectiveCall& call) const override;

 private:
  // Samples whose hidden states are one row for the head.
  int64_t summed() const { return shape_.answer == HeadShape::Answer::choice ? 1 : shape_.samples; }
  void backward(const ObjectiveCall& call, const PickedRows& picked, const DropoutKey& dropout) const;

  HeadShape shape_;
};

}  // namespace gpt
