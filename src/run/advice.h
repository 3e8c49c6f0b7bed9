#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// Facts about a run before its first step.
struct AdviceFacts {
  const RunConfig& config;  // complete
  int64_t parameters = 0;
  int64_t train_tokens = 0, val_tokens = 0;
  int64_t documents = 0;         // of the training text; 0: not known
  bool chosen_tokenizer = true;  // false: the tokenizer is that of the model that the run starts from
};

// A setting that is likely to be a mistake, and the flags that fix it; no flags if the user must choose.
struct Advice {
  std::string text;  // one line
  std::vector<std::string> flags = {};
};
// Returns advice about settings that are likely mistakes; empty if there are none or if the facts are not
// known. `gpt plan` and `gpt train` show it before the run.
std::vector<Advice> run_advice(const AdviceFacts& facts);

// Throws invalid_argument for settings that the data does not allow, such as patience without validation
// data.
void check_run(const TrainConfig& config, bool has_val);

}  // namespace gpt
