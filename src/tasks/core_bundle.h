#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tasks/run_tasks.h"

namespace gpt {

// nanochat's bundle for the CORE metric of DCLM (arXiv:2406.11794): core.yaml with its tasks, eval_data
// beside it with their JSONL, eval_meta_data.csv with what guessing gets. Prompts, drawn examples, ids and
// scores are those of nanochat/core_eval.py and scripts/base_eval.py at commit 92d63d4.
struct CoreTask {
  enum class Kind { multiple_choice, schema, language_modeling };
  std::string label;
  Kind kind = Kind::multiple_choice;
  std::string data;  // the JSONL file
  int64_t num_fewshot = 0;
  std::string delimiter = " ";
  double random_baseline = 0;  // of accuracy, in per cent
};

// Whether a YAML file is such a bundle: it has the key icl_tasks.
bool is_core_bundle(const std::string& path);
// Throws Error naming file and line.
std::vector<CoreTask> read_core_bundle(const std::string& path);

struct CoreResult {
  TaskResult result;    // accuracy as "acc", with filter "none"
  double centered = 0;  // 0 where guessing gets as many, 1 for all
};
// Of one task: options.limit documents after nanochat's shuffle; num_fewshot and data_dir have no meaning.
// Sequences that do not fit are cut off on the left. Throws Error naming the document.
CoreResult run_core_task(const CoreTask& task, TaskModel& model, const TaskOptions& options,
                         ThreadPool& pool);

// The CORE metric: the mean of what is centred.
double core_metric(const std::vector<CoreResult>& results);

}  // namespace gpt
