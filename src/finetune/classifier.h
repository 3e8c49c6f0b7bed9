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

// What a model with a head does, and all that its files say of it.
struct HeadFacts {
  TaskKind kind = TaskKind::classify;
  Labels labels;
  int64_t choices = 0;  // of choose
  TaskTokens tokens = {};
  int64_t max_length = 0;  // of a row

  HeadShape shape() const;
};

// What a head says of an example: a logit for each label or choice, or the number.
using Outputs = std::vector<double>;
// The softmax.
std::vector<double> probabilities(const Outputs& outputs);
// The first with the highest logit.
int64_t best_output(const Outputs& outputs);
// The names of what outputs are for: the labels, or numbers of choices.
std::vector<std::string> output_names(const HeadFacts& facts, size_t outputs);

// Reads examples with a model and its head, many at once. The outputs of an example have the same bits
// whatever is read beside it.
class Classifier {
 public:
  // head: [outputs,C] fp32, in any memory. The model must outlive this; weights: what products are computed
  // in.
  Classifier(const Model& model, const Backend& backend, const HeadFacts& facts, const TensorView& head,
             DType weights = DType::f32);

  const HeadFacts& facts() const { return facts_; }
  // The rows of as many examples as are worth being read at once.
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
