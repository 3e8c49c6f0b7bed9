#pragma once

#include <cstdint>

namespace gpt {

// Estimates the cost of a step from measured times: a + b * rows, fitted by least squares to about the last
// fifty steps. Steps of a single size do not determine a and b, so an initial estimate of a / b has the
// weight of a tenth of a step.
class StepCost {
 public:
  // Initial estimate of a / b: the rows that take as long as reading the weights once. Measured with GPT-2
  // 124M on two cores for up to 32 rows: Q8_0 6 to 9, fp32 9, bf16 10; quantized weights read in place 3
  // (docs/log.md).
  static constexpr double kGuess = 8;
  static constexpr int64_t kMostRows = 64;  // longer steps are ignored, since they contain prompts

  void learn(int64_t rows, double seconds);
  // a / b, within 0.5 to 64.
  double weight_rows() const { return weight_rows_; }

 private:
  double n_ = 0, rows_ = 0, rows2_ = 0, seconds_ = 0, product_ = 0;  // decaying sums over steps
  double a_ = 0, b_ = 0, weight_rows_ = kGuess;
};

}  // namespace gpt
