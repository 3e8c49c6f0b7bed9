#pragma once

#include <cstdint>

namespace gpt::serve {

// How many rows of a step prompts may have while other sequences generate, so that a step with a part of a
// prompt takes at most about twice as long as one without: nobody who reads along sees a long prompt of
// somebody else come in. Where more prompts wait than sequences generate, a step may take so many times
// longer. What a row costs depends on the model and the machine, so it is measured.
class PromptPace {
 public:
  // What a step did, and how many sequences still compute their prompts.
  struct Step {
    int64_t generating = 0, prompt_rows = 0, prompts = 0;
    double seconds = 0;
  };
  explicit PromptPace(int64_t most_rows) : most_(most_rows), rows_(most_rows < kFirst ? most_rows : kFirst) {}

  void note(const Step& step);
  // For the next step; 0: it is to show what one without prompts takes.
  int64_t rows() const { return mixed_ < kMostMixed ? rows_ : 0; }

  static constexpr int64_t kLeast = 16, kFirst = 32;  // rows
  static constexpr int kMostMixed = 128;              // steps in a row with prompts

 private:
  const int64_t most_;
  int64_t rows_;
  double alone_ = 0;  // seconds of a step without prompts; 0: not known
  int mixed_ = 0;     // steps since one without
};

}  // namespace gpt::serve
