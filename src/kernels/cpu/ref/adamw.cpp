#include <cmath>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void adamw(const ExecContext& ctx, const AdamWArgs& a) noexcept {
  const double t = static_cast<double>(a.step->updates), grad_scale = a.step->grad_scale;
  if (grad_scale == 0) return;
  dispatch(a.param.dtype, [&]<class T>(T) {
    const double correction1 = 1 - std::pow(a.beta1, t);
    const double correction2 = 1 - std::pow(a.beta2, t);
    T* p = a.param.as<T>();
    const T* grad = a.grad.as<T>();
    T* m = a.m.as<T>();
    T* v = a.v.as<T>();
    for (const AdamWRange& range : a.ranges) {
      const double lr = a.step->lr * range.lr_scale;
      for_rows(ctx, range.end - range.begin, [&](int64_t offset) {
        const int64_t i = range.begin + offset;
        const double g = grad_scale * grad[i];
        m[i] = static_cast<T>(a.beta1 * m[i] + (1 - a.beta1) * g);
        v[i] = static_cast<T>(a.beta2 * v[i] + (1 - a.beta2) * g * g);
        const double update = m[i] / correction1 / (std::sqrt(v[i] / correction2) + a.eps);
        p[i] = static_cast<T>(p[i] - lr * range.weight_decay * p[i] - lr * update);
      });
    }
  });
}

}  // namespace gpt::ref
