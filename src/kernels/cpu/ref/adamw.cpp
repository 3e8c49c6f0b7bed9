#include <cmath>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void adamw(const ExecContext& ctx, const AdamWArgs& a) noexcept {
  const double t = static_cast<double>(unwrap(a.step)->updates), grad_scale = unwrap(a.step)->grad_scale;
  if (grad_scale == 0) return;
  dispatch(ctx, a.param.dtype, [&]<class T>(T) {
    T* p = a.param.as<T>();
    const T* grad = a.grad.as<T>();
    T* m = a.m.as<T>();
    T* v = a.v.as<T>();
    for (const AdamWRange& range : a.ranges) {
      const AdamWRule& rule = range.rule;
      const double correction1 = 1 - std::pow(rule.beta1, t);
      const double correction2 = 1 - std::pow(rule.beta2, t);
      const double lr = unwrap(a.step)->lr * rule.lr_scale;
      for_rows(ctx, range.end - range.begin, [&](int64_t offset) {
        const int64_t i = range.begin + offset;
        const double g = grad_scale * grad[i];
        m[i] = static_cast<T>(rule.beta1 * m[i] + (1 - rule.beta1) * g);
        v[i] = static_cast<T>(rule.beta2 * v[i] + (1 - rule.beta2) * g * g);
        const double update = m[i] / correction1 / (std::sqrt(v[i] / correction2) + rule.eps);
        p[i] = static_cast<T>(p[i] - lr * rule.weight_decay * p[i] - lr * update);
      });
    }
  });
}

void update_squares(const ExecContext& ctx, const UpdateSquaresArgs& a) noexcept {
  const StepState& step = *unwrap(a.step);
  const auto t = static_cast<double>(step.updates);
  const float *p = a.param.as<float>(), *m = a.m.as<float>(), *v = a.v.as<float>();
  ctx.pool.parallel_for(std::ssize(a.ranges), [&](int64_t i, int) {
    const AdamWRange& range = a.ranges[static_cast<size_t>(i)];
    const AdamWRule& rule = range.rule;
    const auto correct1 = static_cast<float>(1 / (1 - std::pow(rule.beta1, t)));
    const auto correct2 = static_cast<float>(1 / (1 - std::pow(rule.beta2, t)));
    const auto eps = static_cast<float>(rule.eps);
    const auto rate = static_cast<float>(step.lr * rule.lr_scale);
    const auto decay = static_cast<float>(rule.weight_decay);
    double updates = 0, weights = 0;
    for (int64_t begin = range.begin; begin < range.end; begin += kSumRun) {
      float run_updates = 0, run_weights = 0;
      for (int64_t e = begin; e < std::min(begin + kSumRun, range.end); ++e) {
        const float change = rate * (m[e] * correct1 / (std::sqrt(v[e] * correct2) + eps) + decay * p[e]);
        run_updates += change * change;
        run_weights += p[e] * p[e];
      }
      updates += double{run_updates};
      weights += double{run_weights};
    }
    unwrap(a.sums)[2 * i] = updates;
    unwrap(a.sums)[2 * i + 1] = weights;
  });
}

}  // namespace gpt::ref
