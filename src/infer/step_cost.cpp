#include "infer/step_cost.h"

#include <algorithm>

namespace gpt {
namespace {

constexpr double kSampleMemory = 0.98, kGuessWeight = 0.1;
constexpr double kLeast = 0.5, kMost = 64;

// A step that takes much longer than estimated was probably interrupted. If the fit already contains more
// than kKnown steps, the time of a new step is limited to kOutlier times the estimate.
constexpr double kKnown = 4, kOutlier = 3;

}  // namespace

void StepCost::learn(int64_t rows, double seconds) {
  if (rows < 1 || rows > kMostRows) return;
  const auto r = static_cast<double>(rows);
  if (n_ > kKnown) seconds = std::clamp(seconds, 0.0, kOutlier * (a_ + b_ * r));
  for (double* sum : {&n_, &rows_, &rows2_, &seconds_, &product_})
    *sum *= kSampleMemory;
  n_ += 1;
  rows_ += r;
  rows2_ += r * r;
  seconds_ += seconds;
  product_ += r * seconds;
  // The normal equations of sum (a + b r - t)^2 + kGuessWeight (a - kGuess b)^2.
  const double aa = n_ + kGuessWeight, ab = rows_ - kGuessWeight * kGuess;
  const double bb = rows2_ + kGuessWeight * kGuess * kGuess;
  const double determinant = aa * bb - ab * ab;  // positive because (1, r) and (1, -kGuess) are not parallel
  a_ = std::max(0.0, (seconds_ * bb - product_ * ab) / determinant);
  b_ = std::max(0.0, (product_ * aa - seconds_ * ab) / determinant);
  weight_rows_ = std::clamp(b_ > 0 ? a_ / b_ : kMost, kLeast, kMost);
}

}  // namespace gpt
