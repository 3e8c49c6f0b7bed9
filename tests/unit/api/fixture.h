#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "gpt/gpt.hpp"
#include "support/temp_dir.h"

namespace gptcpp {

inline constexpr const char* kText = "the cat sat on the mat and the dog sat on the log; ";

inline std::string long_text() {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += kText;
  return text;
}

inline Settings small_settings() {
  return {{"preset", "tiny"}, {"n_layer", "2"}, {"n_embd", "32"},       {"n_head", "2"},
          {"n_ctx", "64"},    {"steps", "30"},  {"batch_size", "4"},    {"warmup", "0"},
          {"lr", "1e-3"},     {"seed", "3"},    {"position", "learned"}};
}

// Returns the folder of a small model that is trained once on `long_text`.
inline const std::string& small_model() {
  static gpt::test::TempDir dir;
  static const std::string folder = [] {
    Trainer trainer(Context({.threads = 2}), small_settings(), long_text());
    trainer.run(30);
    trainer.save(dir.path() + "/model");
    return dir.path() + "/model";
  }();
  return folder;
}

// Returns the error code that a call throws, or 0 if it does not throw.
template <class F>
int code_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return static_cast<int>(error.code());
  }
  return 0;
}

inline int code(Code c) {
  return static_cast<int>(c);
}

}  // namespace gptcpp
