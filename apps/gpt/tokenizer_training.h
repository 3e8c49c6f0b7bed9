#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text_blocks.h"
#include "options.h"

namespace gpt {

// The flags of `gpt tokenizer train`.
struct TokenizerTrainArguments {
  std::vector<std::string> data, special_tokens;
  std::string pattern = "gpt2", field = "text", out, against;
  int64_t vocab_size = 32768, max_words = 16000000;
  std::string task;  // number and count of the task, e.g. "3/8"
  FolderFilter filter;
  bool merge = false, no_special = false, json = false, force = false;
  MachineOptions machine;
};

// Throws Errors for missing and invalid flags. Not called with --merge.
void check_tokenizer_training(const TokenizerTrainArguments& arguments);

// Trains a tokenizer, writes it and prints a report. Returns the exit status.
int run_tokenizer_training(const TokenizerTrainArguments& arguments);

}  // namespace gpt
