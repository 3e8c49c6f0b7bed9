#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options.h"

namespace gpt {

// Arguments of `gpt eval --tasks`.
struct EvalTasksRequest {
  std::vector<std::string> files;  // tasks and groups of lm-evaluation-harness, or nanochat's core.yaml
  std::string data_dir, log_samples, html;
  std::optional<int64_t> few_shot, limit;
  // Unchanged values of the corresponding flags of gpt eval.
  std::string model, against, dtype, tokenizer;
  std::vector<std::string> adapters;  // adapters of `model`; they are not applied to `against`
  int64_t batch_size = 0;             // sequences evaluated concurrently; 0: 32
  uint64_t seed = 1;                  // seed for sampled responses
  // Chat template for the questions: a format name, a file, "own" for the model's template, or "" for none.
  std::string chat_template;
  bool json = false;
};

// Runs the tasks and writes the table, JSON, HTML page and sample log. Returns the exit status.
int eval_tasks(const EvalTasksRequest& request, const MachineOptions& machine);

}  // namespace gpt
