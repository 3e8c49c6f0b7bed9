#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/train_config.h"

namespace gpt {

// What is known of a run before its first step.
struct AdviceFacts {
  const RunConfig& config;  // complete
  int64_t parameters = 0;
  int64_t train_tokens = 0, val_tokens = 0;
  int64_t documents = 0;         // of the training text; 0: not known
  bool chosen_tokenizer = true;  // false: it comes with the model that the run starts from
};

// What is likely to be a mistake, and the flags with values that fix it; none where people must choose.
struct Advice {
  std::string text;  // one line
  std::vector<std::string> flags = {};
};
// Returns nothing where all is well or where it cannot be known. Shown by `gpt plan` and at the start of
// `gpt train`.
std::vector<Advice> run_advice(const AdviceFacts& facts);

// Throws invalid_argument for settings that the data rule out: patience without validation, say.
void check_run(const TrainConfig& config, bool has_val);

}  // namespace gpt
