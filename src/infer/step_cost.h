#pragma once

#include <cstdint>

namespace gpt {

// What the rows of a step cost, from the time that steps took: the line a + b * rows, fitted by least squares
// to the last fifty or so. Steps of one size alone say nothing about a and b, so a first guess of a / b has
// the weight of a tenth of a step.
class StepCost {
 public:
  // Rows that take as long as reading the weights once: the first guess. Measured with GPT-2 124M on two
  // cores for up to 32 rows: Q8_0 6 to 9, fp32 9, bf16 10; blocks as a file has them 3 (docs/log.md).
  static constexpr double kGuess = 8;
  static constexpr int64_t kMostRows = 64;  // of steps that count: longer ones are parts of prompts

  void learn(int64_t rows, double seconds);
  // a / b, within 0.5 to 64.
  double weight_rows() const { return weight_rows_; }

 private:
  double n_ = 0, rows_ = 0, rows2_ = 0, seconds_ = 0, product_ = 0;  // sums over steps, older ones count less
  double a_ = 0, b_ = 0, weight_rows_ = kGuess;
};

}  // namespace gpt
