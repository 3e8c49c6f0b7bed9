#pragma once

#include <cstdint>

namespace gpt {

// Dynamic loss scaling for fp16 (Micikevicius et al. 2018, section 3.2): the loss is multiplied before the
// backward pass, so that small gradients do not become zero, and gradients are divided before the update. A
// step whose gradients overflow is skipped and halves the scale; kGrowEvery good steps in a row double it.
struct LossScale {
  static constexpr int64_t kGrowEvery = 2000;
  static constexpr double kLargest = 0x1p24;

  double scale = 1;        // 1 where no scaling is needed
  int64_t good_steps = 0;  // since the scale last changed
  int64_t overflows = 0;   // steps skipped so far

  static LossScale for_fp16() { return {.scale = 0x1p16}; }

  // Overflows although the gradients were not even multiplied: it is not the scale's fault.
  bool exhausted() const { return scale < 1; }

  void after_step(bool finite) {
    if (!finite) {
      scale /= 2;
      good_steps = 0;
      ++overflows;
    } else if (++good_steps >= kGrowEvery) {
      if (scale < kLargest) scale *= 2;
      good_steps = 0;
    }
  }
};

}  // namespace gpt
