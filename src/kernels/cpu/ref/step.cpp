#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void preference(const ExecContext&, const PreferenceArgs& a) noexcept {
  const auto beyond_reference = [&](int64_t sample) {
    double sum = -double{unwrap(a.reference)[sample]};
    for (int64_t n = sample * a.n_ctx; n < (sample + 1) * a.n_ctx; ++n)
      sum -= unwrap(a.losses)[n];
    return sum;
  };
  const auto softplus = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  for (int64_t sample = 0; sample < std::ssize(unwrap_span(a.losses)) / a.n_ctx; sample += 2) {
    const double margin = a.beta * (beyond_reference(sample) - beyond_reference(sample + 1));
    const double slope = a.beta * (1 / (1 + std::exp(margin)) - a.smoothing);  // gradient of the nll of the
                                                                               // chosen sample
    const int64_t first = sample * a.n_ctx, second = first + a.n_ctx;
    for (int64_t n = first; n < second + a.n_ctx; ++n) {
      unwrap(a.losses)[n] = 0;
      unwrap(a.weights)[n] = static_cast<float>((n < second ? slope : -slope) * double{unwrap(a.mask)[n]});
    }
    unwrap(a.losses)[first] = (1 - a.smoothing) * softplus(-margin) + a.smoothing * softplus(margin);
  }
}

void sum_losses(const ExecContext&, const SumLossesArgs& a) noexcept {
  double sum = 0;
  for (int64_t n = 0; n < static_cast<int64_t>(a.losses.size()); ++n)
    sum += unwrap(a.losses)[n];
  (a.step ? unwrap(a.step)->loss : *unwrap(a.sum)) += sum;
}

namespace {

// Returns the mean of the window plus z standard deviations. Returns infinity if the window is not full or
// all its values are equal.
double limit_of(const ScalarWindow& window, double z) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (z <= 0 || window.count < ScalarWindow::kSize) return kNone;
  const auto sum_over = [&](auto value) {  // oldest first
    double sum = 0;
    for (int64_t i = window.count; i < window.count + ScalarWindow::kSize; ++i)
      sum += value(window.values[i % ScalarWindow::kSize]);
    return sum;
  };
  constexpr auto kCount = static_cast<double>(ScalarWindow::kSize);
  const double mean = sum_over([](double x) { return x; }) / kCount;
  const double variance = sum_over([&](double x) { return (x - mean) * (x - mean); }) / kCount;
  const double deviation = std::sqrt(variance);
  return deviation > 0 ? mean + z * deviation : kNone;
}

void add(ScalarWindow& window, double x) {
  window.values[window.count++ % ScalarWindow::kSize] = x;
}

void update_scale(LossScale& scaling, bool overflow) {
  if (overflow) {
    scaling.scale /= 2;
    scaling.good_steps = 0;
    ++scaling.overflows;
  } else if (++scaling.good_steps >= LossScale::kGrowEvery) {
    if (scaling.scale < LossScale::kLargest) scaling.scale *= 2;
    scaling.good_steps = 0;
  }
}

}  // namespace

void begin_step(const ExecContext&, const BeginStepArgs& a) noexcept {
  StepState& step = *unwrap(a.step);
  step.step = a.inputs.step;
  step.seed = a.inputs.seed;
  step.lr = a.inputs.lr;
  step.loss_weight = a.inputs.loss_weight;
  step.clip_norm = a.inputs.clip_norm;
  step.loss_scale = step.scaling.scale;
  step.max_loss = limit_of(step.losses, step.outlier_z);
  step.max_norm = limit_of(step.norms, step.outlier_z);
  step.loss = step.norm = step.grad_scale = 0;
}

void finalize_grad_norm(const ExecContext&, const FinalizeGradNormArgs& a) noexcept {
  StepState& step = *unwrap(a.step);
  double sum = 0;
  for (const double squares : unwrap_span(a.block_sums))
    sum += squares;
  const double norm = std::sqrt(sum) / step.loss_scale;
  bool skipped = step.grad_scale == 0;
  if (!a.clamped) {
    step.loss *= step.loss_weight;
    step.norm = norm;
    const bool finite = std::isfinite(step.loss) && std::isfinite(norm);
    const bool overflow = step.scaling.dynamic && std::isfinite(step.loss) && !std::isfinite(norm);
    if (step.scaling.dynamic) update_scale(step.scaling, overflow);
    // Loss scaling cannot be the cause of an overflow if the loss scale was at most 1.
    step.halted = step.halted || (!finite && !(overflow && step.scaling.scale >= 1));
    skipped = step.halted || !finite || step.loss > step.max_loss || norm > step.max_norm;
    if (!skipped) {
      ++step.updates;
      if (step.outlier_z > 0) {
        add(step.losses, step.loss);
        add(step.norms, norm);
      }
    }
  }
  const double clip = step.clip_norm > 0 ? std::min(1.0, step.clip_norm / (norm + 1e-6)) : 1.0;
  step.grad_scale = skipped ? 0 : clip / step.loss_scale;
}

}  // namespace gpt::ref
