#include "finetune/shared_examples.h"

#include <fmt/format.h>

#include "base/format.h"

namespace gpt {

std::string note_shared_examples(int64_t shared, int64_t held_out) {
  constexpr int64_t kMostTimes = 10;
  if (shared == 0 || shared * kMostTimes < held_out) return "";
  return fmt::format(
      "note: the training data contains {} of {}, so the held-out scores do not predict the scores on new "
      "examples\n",
      format_thousands(shared), format_amount(held_out, "held-out example"));
}

}  // namespace gpt
