#include "finetune/shared_examples.h"

#include <fmt/format.h>

#include "base/format.h"

namespace gpt {

std::string note_shared_examples(int64_t shared, int64_t held_out) {
  constexpr int64_t kMostTimes = 10;
  if (shared == 0 || shared * kMostTimes < held_out) return "";
  return fmt::format("note: the training data has {} of {} too, so their scores say little of new ones\n",
                     format_thousands(shared), format_amount(held_out, "held-out example"));
}

}  // namespace gpt
