#pragma once

#include "model/objective.h"

namespace gpt {

// Describes the loss of a task head. Every sample of a batch contains one `extract` token. The head reads the
// hidden state at the position of this token. The total loss also includes the language model loss on the
// same text (Radford et al. 2018, section 3.2, L3 = L2 + lambda L1). An example may consist of several
// samples; the first sample stores the label of the example. In the first sample, the weight of the `extract`
// token is the weight of the example. All other tokens have their weight in the language model loss,
// multiplied by lambda.
struct HeadShape {
  enum class Answer : uint8_t {
    label,   // [outputs,C]: one logit per label
    number,  // [1,C]: the head predicts a number
    choice   // [1,C]: the prediction is the sample of the example with the highest score
  };
  Answer answer = Answer::label;
  int64_t outputs = 1;    // rows of the head's matrix
  int64_t samples = 1;    // samples per example: the choices, or samples whose hidden states are added
  int32_t extract = -1;   // id of the extract token
  double dropout = 0.1;   // dropout probability of the hidden state that the head reads
  bool auxiliary = true;  // true if the language model loss is added
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
  // Returns the number of samples whose hidden states are added to form one input row of the head.
  int64_t summed() const { return shape_.answer == HeadShape::Answer::choice ? 1 : shape_.samples; }
  void backward(const ObjectiveCall& call, const PickedRows& picked, const DropoutKey& dropout) const;

  HeadShape shape_;
};

}  // namespace gpt
