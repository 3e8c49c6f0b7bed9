#pragma once

#include <cstdint>

namespace gpt::serve {

// Limits the rows of a step that prompts may use while other sequences generate. A step with prompt rows
// should take at most about twice as long as a step without them, so that a long prompt does not visibly slow
// down other responses. If there are more prompts than generating sequences, a step may take proportionally
// longer. The time per row depends on the model and the machine, so it is measured.
class PromptPace {
 public:
  // Describes the work of a step and the number of sequences that still compute their prompts.
  struct Step {
    int64_t generating = 0, prompt_rows = 0, prompts = 0;
    double seconds = 0;
  };
  explicit PromptPace(int64_t most_rows) : most_(most_rows), rows_(most_rows < kFirst ? most_rows : kFirst) {}

  void note(const Step& step);
  // Returns the maximum prompt rows of the next step. With 0, the next step measures the time without
  // prompts.
  int64_t rows() const { return mixed_ < kMostMixed ? rows_ : 0; }

  static constexpr int64_t kLeast = 16, kFirst = 32;  // number of rows
  static constexpr int kMostMixed = 128;              // maximum number of consecutive steps with prompts

 private:
  const int64_t most_;
  int64_t rows_;
  double alone_ = 0;  // seconds of a step without prompts; 0: unknown
  int mixed_ = 0;     // steps since the last step without prompts
};

}  // namespace gpt::serve
