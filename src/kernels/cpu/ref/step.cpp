#include <algorithm>
#include <cmath>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void sum_losses(const ExecContext&, const SumLossesArgs& a) noexcept {
  double sum = 0;
  for (int64_t n = 0; n < a.rows; ++n)
    sum += a.losses[n];
  *a.sum += sum;
}

void finish_norm(const ExecContext&, const FinishNormArgs& a) noexcept {
  StepState& step = *a.step;
  double sum = 0;
  for (int64_t i = 0; i < a.blocks; ++i)
    sum += a.block_sums[i];
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
