#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tasks/run_tasks.h"

namespace gpt {

// A task of the bundle with which nanochat computes the CORE metric of DCLM (arXiv:2406.11794). The bundle
// has three parts. core.yaml lists the tasks. The folder eval_data contains the JSONL files of the tasks.
// eval_meta_data.csv contains the accuracy of random guessing for each task. Prompts, sampled examples, ids
// and scores are the same as in nanochat/core_eval.py and scripts/base_eval.py at commit 92d63d4.
struct CoreTask {
  enum class Kind { multiple_choice, schema, language_modeling };
  std::string label;
  Kind kind = Kind::multiple_choice;
  std::string data;  // path of the JSONL file
  int64_t num_fewshot = 0;
  std::string delimiter = " ";
  double random_baseline = 0;  // accuracy of random guessing in percent
};

// Returns true if a YAML file is a CORE bundle, which has the key icl_tasks.
bool is_core_bundle(const std::string& path);
// Reads the tasks of a bundle. Throws Error naming file and line.
std::vector<CoreTask> read_core_bundle(const std::string& path);

struct CoreResult {
  TaskResult result;    // accuracy as the metric "acc" with the filter "none"
  double centered = 0;  // centered accuracy: 0 for random guessing, 1 if all answers are right
};
// Runs one task on the first options.limit documents after nanochat's shuffle. Ignores options.num_fewshot
// and options.data_dir. Sequences that do not fit into the context are cut off on the left. Throws Error
// naming the document.
CoreResult run_core_task(const CoreTask& task, TaskModel& model, const TaskOptions& options,
                         ThreadPool& pool);

// Returns the CORE metric, which is the mean of the centered accuracies.
double core_metric(const std::vector<CoreResult>& results);

}  // namespace gpt
