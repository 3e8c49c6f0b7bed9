#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "finetune/head_objective.h"
#include "finetune/labels.h"
#include "finetune/transforms.h"
#include "model/inference.h"

namespace gpt {

// Describes the task of a model with a task head, as stored in the model's files.
struct HeadFacts {
  TaskKind kind = TaskKind::classify;
  Labels labels;
  int64_t choices = 0;  // number of choices, for TaskKind::choose
  TaskTokens tokens = {};
  int64_t max_length = 0;  // maximum tokens per row

  HeadShape shape() const;
};

// The output of a head for one example: a logit for each label or choice, or the predicted number.
using Outputs = std::vector<double>;
// Returns the softmax of the outputs.
std::vector<double> probabilities(const Outputs& outputs);
// Returns the index of the output with the highest logit. If several outputs have this logit, returns the
// first index.
int64_t best_output(const Outputs& outputs);
// Returns the names of the outputs: the labels, or the indices of the choices.
std::vector<std::string> output_names(const HeadFacts& facts, size_t outputs);

// Computes the outputs of a model with a task head for batches of examples. The outputs of an example are
// bit-identical regardless of the other examples in the batch.
class Classifier {
 public:
  // `head` is the fp32 matrix [outputs,C] of the head, in the memory of any device. Matrix products are
  // computed with the dtype `weights`. The model must outlive this object.
  Classifier(const Model& model, const Backend& backend, const HeadFacts& facts, const TensorView& head,
             DType weights = DType::f32);

  const HeadFacts& facts() const { return facts_; }
  // Number of rows that are computed as one batch.
  static constexpr int64_t kBatch = 32;
  std::vector<Outputs> read(std::span<const EncodedExample> examples);

 private:
  std::vector<Outputs> read_rows(std::span<const std::vector<int32_t>* const> rows);
  Outputs outputs_of(const float* hidden) const;

  const HeadFacts facts_;
  int64_t n_embd_;
  std::vector<float> head_;
  Inference inference_;
};

}  // namespace gpt
