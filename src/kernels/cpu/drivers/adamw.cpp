#include <cmath>

#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {
namespace {

AdamWStep step_of(const StepState& step, const AdamWRule& rule) {
  const auto t = static_cast<double>(step.updates);
  const double correction1 = 1 - std::pow(rule.beta1, t);
  const double correction2 = 1 - std::pow(rule.beta2, t);
  const double lr = step.lr * rule.lr_scale;
  return {.grad_scale = static_cast<float>(step.grad_scale),
          .one_minus_beta1 = static_cast<float>(1 - rule.beta1),
          .one_minus_beta2 = static_cast<float>(1 - rule.beta2),
          .step_size = static_cast<float>(lr / correction1),
          .root_scale = static_cast<float>(1 / std::sqrt(correction2)),
          .eps = static_cast<float>(rule.eps),
          .decay = static_cast<float>(lr * rule.weight_decay)};
}

}  // namespace

// Runs one parallel loop over the whole buffer. A task may span the end of one parameter range and the start
// of the next.
void adamw(const RowKernels& kernels, const ExecContext& ctx, const AdamWArgs& a) noexcept {
  if (a.param.dtype != DType::f32) return fall_back(ctx, "adamw", ref::adamw, a);
  if (unwrap(a.step)->grad_scale == 0) return;
  for_pieces(ctx, a.param.size(), [&](int64_t piece, int64_t n) {
    auto range = std::partition_point(a.ranges.begin(), a.ranges.end(),
                                      [&](const AdamWRange& r) { return r.end <= piece; });
    for (; range != a.ranges.end() && range->begin < piece + n; ++range) {
      const int64_t begin = std::max(piece, range->begin), end = std::min(piece + n, range->end);
      kernels.adamw(a.param.as<float>() + begin, a.grad.as<float>() + begin, a.m.as<float>() + begin,
                    a.v.as<float>() + begin, end - begin, step_of(*unwrap(a.step), range->rule));
    }
  });
}

}  // namespace gpt::drivers
