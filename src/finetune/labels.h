#pragma once

#include <optional>
#include <string>
#include <vector>

#include "finetune/examples.h"

namespace gpt {

// What a head can answer: one of some names, in the order of its rows; or a number (regression).
struct Labels {
  bool numbers = false;
  std::vector<std::string> names;  // of choose none: its answers are the choices

  // The label as training has it, the class or the number; nothing where the head does not know it.
  std::optional<float> value(const std::string& label) const;
};

// The labels of examples, sorted, whole numbers as numbers; of `similar`, where all are numbers, these
// themselves. Throws Error where there is but one.
Labels collect_labels(const std::vector<Example>& examples, TaskKind kind);

// The label of each example, the class, choice or number. skip_bad: examples whose label is not known are
// taken out and counted, where it would else be an Error that names file and line.
std::vector<float> label_values(ExampleSet& set, TaskKind kind, const Labels& labels, bool skip_bad);

}  // namespace gpt
