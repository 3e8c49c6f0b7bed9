#pragma once

#include <cstdint>

namespace gpt {

// Estimates the cost of a step from measured times. The model a + b * rows is fitted by least squares to
// about the last fifty steps. If all steps have the same size, the measurements do not determine a and b. The
// fit therefore includes an initial estimate of a / b, which weighs as much as a tenth of a measured step.
class StepCost {
 public:
  // The initial estimate of a / b: the number of rows that take as long as reading the weights once.
  // Measurements with GPT-2 124M on two cores and up to 32 rows gave 6 to 9 for Q8_0, 9 for fp32, 10 for
  // bf16, and 3 for memory-mapped quantized weights (docs/log/speculative-decoding.md).
  static constexpr double kGuess = 8;
  static constexpr int64_t kMostRows = 64;  // larger steps are ignored because they contain prompts

  void learn(int64_t rows, double seconds);
  // Returns a / b, limited to the range 0.5 to 64.
  double weight_rows() const { return weight_rows_; }

 private:
  double n_ = 0, rows_ = 0, rows2_ = 0, seconds_ = 0, product_ = 0;  // exponentially decaying sums over steps
  double a_ = 0, b_ = 0, weight_rows_ = kGuess;
};

}  // namespace gpt
