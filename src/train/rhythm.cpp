#include "train/rhythm.h"

#include <algorithm>
#include <cmath>

#include "train/plan.h"

namespace gpt {
namespace {

constexpr int64_t kMostEvaluations = 20, kMostBatches = 50;
constexpr int64_t kOpen = -1;
constexpr double kForward = 1.0 / 3;  // of the operations of a training step on as many tokens

int64_t splits(const TrainConfig& c) {
  return c.eval_train ? 2 : 1;
}

// Batches of all evaluations together that take the share.
int64_t batches_in_all(const TrainConfig& c) {
  const double steps = static_cast<double>(c.steps) * kEvaluationShare / (1 - kEvaluationShare) / kForward;
  return static_cast<int64_t>(steps) / splits(c);
}

// The next of 1, 2, 5, 10, 20, 25, 50, 100, 200, 250, ...
int64_t round_number(int64_t n) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t quarters : {4, 8, 10, 20}) {
      if (quarters * power % 4 == 0 && quarters * power / 4 >= n) return quarters * power / 4;
    }
  }
}

// Steps between evaluations of so many batches.
int64_t interval(const TrainConfig& c, int64_t eval_batches) {
  const int64_t before = c.eval_train ? 1 : 0;  // the first step
  const int64_t times = std::clamp<int64_t>(batches_in_all(c) / eval_batches - before, 1, kMostEvaluations);
  return std::min(c.steps, round_number((c.steps + times - 1) / times));
}

}  // namespace

void complete_rhythm(TrainConfig& c) {
  if (c.eval_every == kOpen) {
    const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(batches_in_all(c))));
    c.eval_every =
        interval(c, c.eval_batches > 0 ? c.eval_batches : std::clamp<int64_t>(root, 1, kMostBatches));
  }
  if (c.eval_batches == kOpen) {
    const int64_t times = std::max<int64_t>(1, evaluations(c, c.steps));
    c.eval_batches =
        c.eval_every > 0 ? std::clamp<int64_t>(batches_in_all(c) / times, 1, kMostBatches) : kMostBatches;
  }
}

int64_t evaluations(const TrainConfig& c, int64_t steps) {
  return times_due(steps, c.eval_every) + (c.eval_train && c.eval_every > 0 ? 1 : 0);
}

int64_t evaluated_batches(const TrainConfig& c, int64_t steps) {
  return evaluations(c, steps) * splits(c) * c.eval_batches;
}

double evaluation_share(const TrainConfig& c) {
  const double cost = static_cast<double>(evaluated_batches(c, c.steps)) * kForward;
  return cost / (cost + static_cast<double>(c.steps));
}

}  // namespace gpt
