#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace gpt {
namespace {

// Returns the progress from step `begin` to step `end`, between 0 and 1.
double share(int64_t step, int64_t begin, int64_t end) {
  if (end <= begin) return 1;
  return std::clamp(static_cast<double>(step - begin) / static_cast<double>(end - begin), 0.0, 1.0);
}

constexpr int64_t kMostEvaluations = 20, kMostBatches = 50;
constexpr int64_t kOpen = -1;
// Cost of a forward pass as a fraction of the cost of a training step with the same number of tokens.
constexpr double kForward = 1.0 / 3;

int64_t splits(const TrainConfig& c) {
  return c.eval_train ? 2 : 1;
}

// Returns the total number of evaluation batches for which evaluation takes the fraction kEvaluationShare of
// the run.
int64_t batches_in_all(const TrainConfig& c) {
  const double steps = static_cast<double>(c.steps) * kEvaluationShare / (1 - kEvaluationShare) / kForward;
  return static_cast<int64_t>(steps) / splits(c);
}

// Returns the smallest round number >= n: 1, 2, 5, 10, 20, 25, 50, 100, 200, 250, ...
int64_t round_number(int64_t n) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t quarters : {4, 8, 10, 20}) {
      if (quarters * power % 4 == 0 && quarters * power / 4 >= n) return quarters * power / 4;
    }
  }
}

// Returns the number of steps between evaluations if each evaluation reads `eval_batches` batches.
int64_t interval(const TrainConfig& c, int64_t eval_batches) {
  const int64_t before = c.eval_train ? 1 : 0;  // the evaluation before the first step
  const int64_t times = std::clamp<int64_t>(batches_in_all(c) / eval_batches - before, 1, kMostEvaluations);
  return std::min(c.steps, round_number((c.steps + times - 1) / times));
}

}  // namespace

double learning_rate(const TrainConfig& c, int64_t step) {
  constexpr double kPi = 3.14159265358979323846;
  if (step < c.warmup) return c.lr * static_cast<double>(step) / static_cast<double>(c.warmup);
  const double span = c.lr - c.min_lr;
  switch (c.schedule) {
    case ScheduleKind::cosine:
      return c.min_lr + 0.5 * span * (1 + std::cos(kPi * share(step, c.warmup, c.steps)));
    case ScheduleKind::linear:
      return c.lr - span * share(step, c.warmup, c.steps);
    case ScheduleKind::constant:
      return c.lr;
    case ScheduleKind::wsd:
      return c.lr - span * share(step, std::max(c.warmup, c.steps - c.steps / 5), c.steps);
  }
  return c.lr;
}

std::vector<int64_t> schedule_steps(const TrainConfig& c) {
  std::set<int64_t> steps;
  for (int64_t quarter = 0; quarter <= 4; ++quarter)
    steps.insert(c.warmup / 4 * quarter + c.warmup % 4 * quarter / 4);
  for (const int64_t percent : {5, 10, 30, 50, 80, 100})
    steps.insert(c.steps / 100 * percent + c.steps % 100 * percent / 100);
  std::erase_if(steps, [&](int64_t step) { return step > c.steps; });
  return {steps.begin(), steps.end()};
}

std::string schedule_bar(const TrainConfig& c, int64_t step, int width) {
  if (c.lr <= 0) return "";
  constexpr double kRounding = 1e-9;  // ensures that the peak learning rate gives a full bar
  const double parts = std::floor(width * learning_rate(c, step) / c.lr + kRounding);
  return std::string(static_cast<size_t>(std::clamp(parts, 0.0, static_cast<double>(width))), '=');
}

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

int64_t planned_steps(const TrainConfig& c) {
  return c.stop_after > 0 ? std::min(c.stop_after, c.steps) : c.steps;
}

int64_t times_due(int64_t steps, int64_t every) {
  return every > 0 ? steps / every + (steps % every != 0 ? 1 : 0) : 0;
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
