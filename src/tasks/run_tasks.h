#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tasks/statistics.h"
#include "tasks/task_model.h"
#include "tasks/task_set.h"

namespace gpt {

struct TaskOptions {
  // Folder with data sets as JSONL files. It is used for every task that does not list the files of its data
  // set.
  std::string data_dir;
  // Overrides the number of examples of all tasks, except of tasks that set it to 0.
  std::optional<int64_t> num_fewshot;
  std::optional<int64_t> limit;  // evaluate only the first documents of each task
  uint64_t seed = 1234;          // seed for sampled responses
  // Called with a JSON object for each document. The first key is doc_id.
  std::function<void(const std::string& line)> on_sample;
  // Called with the number of completed requests of a task and their total.
  std::function<void(const std::string& task, int64_t done, int64_t total)> progress;
};

struct MetricResult {
  std::string name, filter;
  std::string aggregation;
  bool higher_is_better = true;
  Estimate estimate;
  std::vector<MetricItem> items;  // one item per document
};

struct TaskResult {
  std::string name, alias;
  int64_t documents = 0, of_documents = 0;  // evaluated documents, and all documents of the task
  int64_t num_fewshot = 0;
  std::vector<MetricResult> metrics;
};

// Throws Error naming the task if it cannot be sent through a chat template as a single user message.
// run_task makes the same check. Call this function to check all tasks before the first one runs.
void check_chat_task(const TaskConfig& config, const TaskOptions& options);

// Runs one task. Throws Error naming the task. If the error concerns a single document, the message also
// names the document.
TaskResult run_task(const TaskConfig& config, TaskModel& model, const TaskOptions& options, ThreadPool& pool);

// The mean of a metric over the tasks of a group, weighted by the number of documents if weight_by_size is
// set.
struct GroupScore {
  std::string name, filter;
  double value = 0;
  std::optional<double> standard_error;
  int64_t documents = 0;
};
// Returns the scores of one group. `results` must have the results of all tasks in the set.
std::vector<GroupScore> group_scores(const TaskGroup& group, const std::vector<TaskResult>& results);

}  // namespace gpt
