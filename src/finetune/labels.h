#pragma once

#include <optional>
#include <string>
#include <vector>

#include "finetune/examples.h"

namespace gpt {

// Describes the outputs of a head: either named classes, in the order of the head's rows, or a number
// (regression).
struct Labels {
  bool numbers = false;
  std::vector<std::string> names;  // empty for `choose`, whose outputs are the choices

  // Returns the value of a label in training: the index of the class, or the number. Returns nothing if the
  // head does not know the label.
  std::optional<float> value(const std::string& label) const;
};

// Returns the labels of the examples in sorted order. Labels that are all integers are sorted by value. For
// `similar`, the task is regression if all labels are numbers. Throws Error if there are fewer than two
// different labels.
Labels collect_labels(const std::vector<Example>& examples, TaskKind kind);

// Returns the value of each example's label: class, choice or number. Throws Error naming file and line if a
// label is unknown. If `skip_bad` is true, examples with unknown labels are removed and counted instead.
std::vector<float> label_values(ExampleSet& set, TaskKind kind, const Labels& labels, bool skip_bad);

}  // namespace gpt
