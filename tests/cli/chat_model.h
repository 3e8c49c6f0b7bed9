#pragma once

#include <gtest/gtest.h>

#include <string>

#include "run_gpt.h"

// Trains a one-layer chat model in a folder, with the tokenizer of tests/data/chat.tokenizer.json and a
// context of 256 tokens. Fails the test if training fails.
inline void train_chat_model(const std::string& folder) {
  const std::string tokenizer = std::string(GPT_SOURCE_DIR) + "/tests/data/chat.tokenizer.json";
  const GptRun run = run_gpt(
      {"train", "--data",       "tales:20000", "--tokenizer",  tokenizer, "--n-layer", "1",   "--n-head",
       "2",     "--n-embd",     "16",          "--n-ctx",      "256",     "--steps",   "2",   "--warmup",
       "0",     "--eval-every", "0",           "--batch-size", "2",       "--out",     folder});
  ASSERT_EQ(run.status, 0) << run.err;
}
