#include <cmath>

#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

void adamw(const RowKernels& kernels, const ExecContext& ctx, const AdamWArgs& a) noexcept {
  if (a.param.dtype != DType::f32) return ref::adamw(ctx, a);
  if (a.grad_scale == 0) return;
  const double correction1 = 1 - std::pow(a.beta1, static_cast<double>(a.t));
  const double correction2 = 1 - std::pow(a.beta2, static_cast<double>(a.t));
  const AdamWStep step = {.grad_scale = static_cast<float>(a.grad_scale),
                          .one_minus_beta1 = static_cast<float>(1 - a.beta1),
                          .one_minus_beta2 = static_cast<float>(1 - a.beta2),
                          .step_size = static_cast<float>(a.lr / correction1),
                          .root_scale = static_cast<float>(1 / std::sqrt(correction2)),
                          .eps = static_cast<float>(a.eps),
                          .decay = static_cast<float>(a.lr * a.weight_decay)};
  for_pieces(ctx, a.param.size(), [&](int64_t begin, int64_t n) {
    kernels.adamw(a.param.as<float>() + begin, a.grad.as<float>() + begin, a.m.as<float>() + begin,
                  a.v.as<float>() + begin, n, step);
  });
}

}  // namespace gpt::drivers
