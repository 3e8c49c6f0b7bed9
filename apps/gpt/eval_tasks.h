#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "options.h"

namespace gpt {

// gpt eval --tasks.
struct EvalTasksRequest {
  std::vector<std::string> files;  // tasks and groups of lm-evaluation-harness, core.yaml of nanochat
  std::string data_dir, log_samples, html;
  std::optional<int64_t> few_shot, limit;
  // As given to gpt eval.
  std::string model, against, dtype, tokenizer;
  std::vector<std::string> adapters;  // of the model, not of the one against it
  int64_t batch_size = 0;             // sequences at once; 0: 32
  uint64_t seed = 1;                  // of sampled answers
  std::string chat_template;          // what asks: a format, a file, "own": the model's, "": none
  bool json = false;
};

// Runs the tasks and writes table, JSON, page and log. Returns the exit status.
int eval_tasks(const EvalTasksRequest& request, const MachineOptions& machine);

}  // namespace gpt
