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
  std::string data_dir;                // where data sets that are no files of the task lie as JSONL
  std::optional<int64_t> num_fewshot;  // instead of the tasks' own, but for those that say 0
  std::optional<int64_t> limit;        // the first documents of each task only
  uint64_t seed = 1234;                // of sampled answers
  std::function<void(const std::string& line)>
      on_sample;  // gets a JSON object for each document, doc_id first
  // What is done of a task.
  std::function<void(const std::string& task, int64_t done, int64_t total)> progress;
};

struct MetricResult {
  std::string name, filter;
  std::string aggregation;
  bool higher_is_better = true;
  Estimate estimate;
  std::vector<MetricItem> items;  // by document
};

struct TaskResult {
  std::string name, alias;
  int64_t documents = 0, of_documents = 0;  // evaluated, and in all
  int64_t num_fewshot = 0;
  std::vector<MetricResult> metrics;
};

// Throws Error naming the task where it cannot be asked through a chat template, as one message of the
// user's; what run_task throws too, before any task has run.
void check_chat_task(const TaskConfig& config, const TaskOptions& options);

// Runs one task. Throws Error naming the task, and the document where there is one.
TaskResult run_task(const TaskConfig& config, TaskModel& model, const TaskOptions& options, ThreadPool& pool);

// A metric over the tasks of a group: their mean, weighted by documents where the group says so.
struct GroupScore {
  std::string name, filter;
  double value = 0;
  std::optional<double> standard_error;
  int64_t documents = 0;
};
// Of one group; results: of all tasks of its set.
std::vector<GroupScore> group_scores(const TaskGroup& group, const std::vector<TaskResult>& results);

}  // namespace gpt
