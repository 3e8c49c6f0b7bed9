#include "finetune/classifier.h"

#include <algorithm>
#include <cmath>

#include "base/ranges.h"
#include "infer/feed.h"
#include "tensor/device.h"

namespace gpt {

HeadShape HeadFacts::shape() const {
  using Answer = HeadShape::Answer;
  HeadShape shape{.extract = tokens.extract};
  if (kind == TaskKind::choose) {
    shape.answer = Answer::choice;
    shape.samples = choices;
  } else {
    shape.answer = labels.numbers ? Answer::number : Answer::label;
    shape.outputs = labels.numbers ? 1 : std::ssize(labels.names);
    shape.samples = kind == TaskKind::similar ? 2 : 1;
  }
  return shape;
}

std::vector<double> probabilities(const Outputs& outputs) {
  const double top = *std::ranges::max_element(outputs);
  std::vector<double> p = transformed(outputs, [&](double x) { return std::exp(x - top); });
  const double sum = sum_of(p);
  for (double& x : p)
    x /= sum;
  return p;
}

int64_t best_output(const Outputs& outputs) {
  return std::ranges::max_element(outputs) - outputs.begin();
}

std::vector<std::string> output_names(const HeadFacts& facts, size_t outputs) {
  if (facts.kind != TaskKind::choose) return facts.labels.names;
  return transformed_indices(static_cast<int64_t>(outputs), [](int64_t i) { return std::to_string(i); });
}

Classifier::Classifier(const Model& model, const Backend& backend, const HeadFacts& facts,
                       const TensorView& head, DType weights)
    : facts_(facts),
      n_embd_(model.config.n_embd),
      head_(static_cast<size_t>(head.size())),
      inference_(model, backend,
                 {.slots = static_cast<int>(kBatch),
                  .capacity = facts.max_length,
                  .dtype = DType::f32,
                  .weights = weights}) {
  copy_elements(head, make_view(head_.data(), {head.rows(), head.cols()}));
}

std::vector<Outputs> Classifier::read(std::span<const EncodedExample> examples) {
  std::vector<const std::vector<int32_t>*> rows;
  for (const EncodedExample& example : examples) {
    for (const auto& row : example.rows)
      rows.push_back(&row);
  }
  const std::vector<Outputs> scores = read_rows(rows);
  std::vector<Outputs> all;
  size_t at = 0;
  for (const EncodedExample& example : examples) {
    Outputs outputs = scores[at++];
    for (size_t row = 1; row < example.rows.size(); ++row, ++at) {
      if (facts_.kind == TaskKind::choose) {
        outputs.push_back(scores[at][0]);
      } else {
        for (size_t k = 0; k < outputs.size(); ++k)
          outputs[k] += scores[at][k];
      }
    }
    all.push_back(std::move(outputs));
  }
  return all;
}

std::vector<Outputs> Classifier::read_rows(std::span<const std::vector<int32_t>* const> rows) {
  std::vector<Outputs> scores;
  std::vector<float> hidden(static_cast<size_t>(kBatch * n_embd_));
  const TensorView view = make_view(hidden.data(), {kBatch, n_embd_});
  for (size_t first = 0; first < rows.size(); first += kBatch) {
    std::vector<Inference::Append> batch;
    for (size_t i = first; i < std::min(rows.size(), first + kBatch); ++i) {
      const auto slot = static_cast<int>(i - first);
      inference_.reset(slot);
      batch.push_back({slot, *rows[i]});
    }
    cut_batch(
        batch, inference_.max_rows(), [&](int slot) { return inference_.room(slot); },
        [&](std::span<const Inference::Append> step, int64_t at) {
          inference_.append_hidden(step, view.slice_rows(at, kBatch - at));
        });
    for (size_t i = 0; i < batch.size(); ++i)
      scores.push_back(outputs_of(hidden.data() + static_cast<int64_t>(i) * n_embd_));
  }
  return scores;
}

Outputs Classifier::outputs_of(const float* hidden) const {
  return transformed_indices(std::ssize(head_) / n_embd_, [&](int64_t k) {
    double sum = 0;
    for (int64_t c = 0; c < n_embd_; ++c)
      sum += double{head_[static_cast<size_t>(k * n_embd_ + c)]} * hidden[c];
    return sum;
  });
}

}  // namespace gpt
