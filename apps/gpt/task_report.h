#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/table.h"
#include "tasks/core_bundle.h"

namespace gpt {

// What one model got in all tasks that were named.
struct ModelScores {
  std::string model;
  std::vector<TaskResult> tasks;  // of the set, in its order
  std::vector<CoreResult> core;   // of the bundles, in their order
  Scorer::Counts counts;
  double seconds = 0;

  std::vector<const TaskResult*> all() const;
};

// Two models on the same documents, for each metric of each task in the order of `all`.
struct TaskComparison {
  const ModelScores& a;
  const ModelScores& b;
  std::vector<PairedTest> tests;
};
TaskComparison compare_scores(const ModelScores& a, const ModelScores& b, ThreadPool& pool);

TextTable score_table(const ModelScores& scores, const std::vector<TaskGroup>& groups);
TextTable comparison_table(const TaskComparison& comparison);

// Everything as one JSON object, as text.
std::string scores_json(const ModelScores& scores, const std::vector<TaskGroup>& groups,
                        const TaskComparison* comparison);
// The same as a page of its own.
std::string scores_page(const ModelScores& scores, const std::vector<TaskGroup>& groups,
                        const TaskComparison* comparison);

}  // namespace gpt
