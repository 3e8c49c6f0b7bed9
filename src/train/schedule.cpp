#include "train/schedule.h"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

// The share of the way from `begin` to `end` at `step`, between 0 and 1.
double share(int64_t step, int64_t begin, int64_t end) {
  if (end <= begin) return 1;
  return std::clamp(static_cast<double>(step - begin) / static_cast<double>(end - begin), 0.0, 1.0);
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
  std::vector<int64_t> steps;
  for (int64_t quarter = 0; quarter <= 4; ++quarter)
    steps.push_back(c.warmup / 4 * quarter + c.warmup % 4 * quarter / 4);
  for (const int64_t percent : {5, 10, 30, 50, 80, 100})
    steps.push_back(c.steps / 100 * percent + c.steps % 100 * percent / 100);
  std::erase_if(steps, [&](int64_t step) { return step > c.steps; });
  std::ranges::sort(steps);
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::string schedule_bar(const TrainConfig& c, int64_t step, int width) {
  if (c.lr <= 0) return "";
  constexpr double kRounding = 1e-9;  // the peak itself is a full bar
  const double parts = std::floor(width * learning_rate(c, step) / c.lr + kRounding);
  return std::string(static_cast<size_t>(std::clamp(parts, 0.0, static_cast<double>(width))), '=');
}

}  // namespace gpt
