#include <algorithm>
#include <cmath>

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
    const double slope = a.beta * (1 / (1 + std::exp(margin)) - a.smoothing);  // of the chosen one's nll
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

void finalize_grad_norm(const ExecContext&, const FinalizeGradNormArgs& a) noexcept {
  StepState& step = *unwrap(a.step);
  double sum = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(a.block_sums.size()); ++i)
    sum += unwrap(a.block_sums)[i];
  const double norm = std::sqrt(sum) / step.loss_scale;
  bool skipped = step.grad_scale == 0;
  if (!a.clamped) {
    step.loss *= step.loss_weight;
    step.norm = norm;
    skipped = !std::isfinite(step.loss) || !std::isfinite(norm) || step.loss > step.max_loss ||
              norm > step.max_norm;
    if (!skipped) ++step.updates;
  }
  const double clip = step.clip_norm > 0 ? std::min(1.0, step.clip_norm / (norm + 1e-6)) : 1.0;
  step.grad_scale = skipped ? 0 : clip / step.loss_scale;
}

}  // namespace gpt::ref
