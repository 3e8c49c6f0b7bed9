#include "serve/models/prompt_pace.h"

#include <algorithm>
#include <cmath>

namespace gpt::serve {

void PromptPace::note(const Step& step) {
  constexpr double kNew = 0.25;                // weight of the last step in the running average
  constexpr double kWithin = 2, kClose = 1.6;  // time relative to a step without prompts: the maximum, and
                                               // the value below which the rows are increased
  if (step.generating == 0) return;
  if (step.prompt_rows == 0) {
    alone_ = alone_ == 0 ? step.seconds : (1 - kNew) * alone_ + kNew * step.seconds;
    mixed_ = 0;
    return;
  }
  ++mixed_;
  if (alone_ == 0) {
    mixed_ = kMostMixed;
    return;
  }
  const double crowd = 1 + static_cast<double>(step.prompts) / static_cast<double>(step.generating);
  const double most = alone_ * std::max(kWithin, crowd);
  const auto rows = static_cast<double>(rows_);
  const auto bounded = [&](double next) {
    const auto least = static_cast<double>(std::min(kLeast, most_));
    rows_ = static_cast<int64_t>(std::clamp(next, least, static_cast<double>(most_)));
  };
  if (step.seconds > most) {
    bounded(rows * std::max(0.5, most / step.seconds));
  } else if (step.prompt_rows >= rows_ && step.seconds < most * kClose / kWithin) {
    bounded(std::ceil(rows * std::min(2.0, most * kClose / kWithin / step.seconds)));
  }
}

}  // namespace gpt::serve
