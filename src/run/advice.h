#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// Collects the facts about a run that are known before its first step.
struct AdviceFacts {
  const RunConfig& config;  // the complete config
  int64_t parameters = 0;
  int64_t train_tokens = 0, val_tokens = 0;
  int64_t documents = 0;         // number of training documents; 0: unknown
  bool chosen_tokenizer = true;  // false: the tokenizer comes from the model that the run starts from
};

// Describes a setting that is likely to be a mistake, and the flags that fix it. `flags` is empty if the user
// must choose a value.
struct Advice {
  std::string text;  // one line of text
  std::vector<std::string> flags = {};
};
// Returns advice about settings that are likely to be mistakes. Returns an empty list if there are no such
// settings or if the required facts are unknown. `gpt plan` and `gpt train` show the advice before the run.
std::vector<Advice> run_advice(const AdviceFacts& facts);

// Throws invalid_argument if the data does not allow a setting, such as `patience` without validation data.
void check_run(const TrainConfig& config, bool has_val);

}  // namespace gpt
