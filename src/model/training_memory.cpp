#include "model/training_memory.h"

#include "base/error.h"

namespace gpt {

std::span<const NumberFormat> number_formats() {
  static constexpr NumberFormat list[] = {
      {"fp32", 1, 8, 23, 3.4028234663852886e38, 4, ""},
      {"fp16", 1, 5, 10, 65504, 2, "small gradients vanish: loss scaling"},
      {"bf16", 1, 8, 7, 3.3895313892515355e38, 2, "the range of fp32"},
      {"fp8", 1, 4, 3, 448, 1, "experimental"},
  };
  return list;
}

std::span<const TrainingFormat> training_formats() {
  static constexpr TrainingFormat list[] = {
      {"fp32", 4, 4, 0, 8, 4}, {"autocast", 4, 4, 0, 8, 2}, {"mixed", 2, 2, 4, 8, 2}};
  return list;
}

TrainingState training_state(int64_t parameters, const TrainingFormat& format, int stage, int64_t devices) {
  GPT_ASSERT(stage >= 0 && stage < kZeroStages && devices >= 1);
  const int64_t share = parameters / devices + (parameters % devices != 0 ? 1 : 0);
  const auto held = [&](int from_stage) { return stage >= from_stage ? share : parameters; };
  return {.weights = format.weight * held(3),
          .gradients = format.gradient * held(2),
          .master = format.master * held(1),
          .moments = format.moments * held(1)};
}

}  // namespace gpt
