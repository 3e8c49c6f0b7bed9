#pragma once

#include <map>
#include <string>
#include <vector>

#include "tasks/prompts.h"
#include "tasks/python_regex.h"
#include "tasks/scorer.h"
#include "tasks/statistics.h"
#include "tasks/task_config.h"

namespace gpt {

// Caches the compiled regular expressions of a task.
class Patterns {
 public:
  const PythonRegex& of(const std::string& pattern);

 private:
  std::map<std::string, PythonRegex> compiled_;
};

// Applies a filter to the texts that the model generated for a document. Throws Error unless the result is a
// single text.
std::string filtered_answer(const FilterRule& filter, std::vector<std::string> texts, Patterns& patterns);

// Return one item per metric of a task for a document, in the order of the metrics. Source:
// ConfigurableTask.process_results of lm-evaluation-harness 0.4.13.
std::vector<MetricItem> choice_items(const TaskConfig& config, const TaskPrompt& prompt,
                                     std::span<const Score> scores, bool multiple_targets);
std::vector<MetricItem> likelihood_items(const TaskConfig& config, const Score& score);
std::vector<MetricItem> rolling_items(const TaskConfig& config, const std::string& text, double logprob);
std::vector<MetricItem> answer_items(const TaskConfig& config, const TaskPrompt& prompt,
                                     const std::string& answer, Patterns& patterns);

}  // namespace gpt
