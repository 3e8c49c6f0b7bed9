#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/table.h"
#include "tasks/core_bundle.h"

namespace gpt {

// The scores of one model in all requested tasks.
struct ModelScores {
  std::string model;
  std::vector<TaskResult> tasks;  // in the order of the task set
  std::vector<CoreResult> core;   // in the order of the bundles
  Scorer::Counts counts;
  double seconds = 0;

  std::vector<const TaskResult*> all() const;
};

// Statistical tests of two models on the same documents, one for each metric of each task, in the order of
// `all`.
struct TaskComparison {
  const ModelScores& a;
  const ModelScores& b;
  std::vector<PairedTest> tests;
};
TaskComparison compare_scores(const ModelScores& a, const ModelScores& b, ThreadPool& pool);

TextTable score_table(const ModelScores& scores, const std::vector<TaskGroup>& groups);
TextTable comparison_table(const TaskComparison& comparison);

// Returns all scores as one JSON object.
std::string scores_json(const ModelScores& scores, const std::vector<TaskGroup>& groups,
                        const TaskComparison* comparison);
// Returns all scores as a standalone HTML page.
std::string scores_page(const ModelScores& scores, const std::vector<TaskGroup>& groups,
                        const TaskComparison* comparison);

}  // namespace gpt
