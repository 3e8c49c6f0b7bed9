#include "train/step_history.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/format.h"
#include "base/ranges.h"
#include "train/schedule.h"

namespace gpt {

void LossScale::after_step(bool finite) {
  if (!finite) {
    scale /= 2;
    good_steps = 0;
    ++overflows;
  } else if (++good_steps >= kGrowEvery) {
    if (scale < kLargest) scale *= 2;
    good_steps = 0;
  }
}

double OutlierDetector::limit(double z) const {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (history.size() < kWindow) return kNone;
  const auto n = static_cast<double>(history.size());
  const double mean = sum_of(history) / n;
  const double variance = sum_of(history, [&](double h) { return (h - mean) * (h - mean); }) / n;
  const double deviation = std::sqrt(variance);
  return deviation > 0 ? mean + z * deviation : kNone;
}

void OutlierDetector::add(double x) {
  if (history.size() == kWindow) history.erase(history.begin());
  history.push_back(x);
}

StepState StepHistory::next(const TrainConfig& c, int64_t step) const {
  StepState start{.step = step,
                  .seed = static_cast<uint64_t>(c.seed),
                  .lr = learning_rate(c, step),
                  .loss_scale = loss_scale.scale,
                  .updates = updates};
  if (c.outlier_z > 0) {
    start.max_loss = losses.limit(c.outlier_z);
    start.max_norm = norms.limit(c.outlier_z);
  }
  return start;
}

bool StepHistory::overflows(const TrainConfig& c, TrainStep& step) {
  const StepState& s = step.state();
  const bool overflow = c.dtype == TrainDType::fp16 && std::isfinite(s.loss) && !std::isfinite(s.norm);
  if (c.dtype == TrainDType::fp16) loss_scale.after_step(!overflow);
  if (std::isfinite(s.loss) && std::isfinite(s.norm)) return false;
  if (overflow && !loss_scale.exhausted()) return true;
  const std::string tensor = step.first_nonfinite();
  fail(
      "training stopped at step {}: the loss is {}, the gradient norm {}; first offending tensor: {}; "
      "try a lower --lr or a --clip-norm",
      s.step, format_number(s.loss), format_number(s.norm), tensor.empty() ? "the loss" : tensor);
}

void StepHistory::add(const TrainConfig& c, const TrainStep& step) {
  updates = step.state().updates;
  if (step.is_skipped() || c.outlier_z == 0) return;
  losses.add(step.state().loss);
  norms.add(step.state().norm);
}

}  // namespace gpt
