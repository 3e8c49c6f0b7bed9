#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text_blocks.h"
#include "options.h"

namespace gpt {

// Flags of `gpt tokenizer train`.
struct TokenizerTrainArguments {
  std::vector<std::string> data, special_tokens;
  std::string pattern = "gpt2", field = "text", out, against;
  int64_t vocab_size = 32768, max_words = 16000000;
  std::string task;  // "3/8"
  FolderFilter filter;
  bool merge = false, no_special = false, json = false, force = false;
  MachineOptions machine;
};

// Throws Errors for missing and wrong flags of a training that is no merge.
void check_tokenizer_training(const TokenizerTrainArguments& arguments);

// Trains a tokenizer, writes it and reports on it; returns the exit status.
int run_tokenizer_training(const TokenizerTrainArguments& arguments);

}  // namespace gpt
