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

// A task's regular expressions, compiled once.
class Patterns {
 public:
  const PythonRegex& of(const std::string& pattern);

 private:
  std::map<std::string, PythonRegex> compiled_;
};

// What a filter leaves of the texts that the model wrote for a document. Throws Error where it is not one.
std::string filtered_answer(const FilterRule& filter, std::vector<std::string> texts, Patterns& patterns);

// The items of a document for each metric of a task, in their order. Source: ConfigurableTask.process_results
// of lm-evaluation-harness 0.4.13.
std::vector<MetricItem> choice_items(const TaskConfig& config, const TaskPrompt& prompt,
                                     std::span<const Score> scores, bool multiple_targets);
std::vector<MetricItem> likelihood_items(const TaskConfig& config, const Score& score);
std::vector<MetricItem> rolling_items(const TaskConfig& config, const std::string& text, double logprob);
std::vector<MetricItem> answer_items(const TaskConfig& config, const TaskPrompt& prompt,
                                     const std::string& answer, Patterns& patterns);

}  // namespace gpt
