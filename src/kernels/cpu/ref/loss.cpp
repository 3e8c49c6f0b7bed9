#include <cmath>
#include <limits>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {
namespace {

void cross_entropy_row(const CrossEntropyArgs& a, int64_t n) {
  const int64_t vocab = a.logits.cols();
  const int32_t target = unwrap(a.targets)[n];
  unwrap(a.losses)[n] = 0;
  const double weight = row_weight(a, n);
  if (weight == 0) {
    for (int64_t v = 0; a.dlogits && v < vocab; ++v)
      set(a.dlogits, n, v, 0);
    return;
  }
  const double sharpness = 1 / a.temperature;
  const auto capped = [&](int64_t v) {
    const double x = get(a.logits, n, v);
    return sharpness * (a.softcap > 0 ? a.softcap * std::tanh(x / a.softcap) : x);
  };
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t v = 0; v < vocab; ++v)
    top = std::max(top, capped(v));
  double sum = 0;
  for (int64_t v = 0; v < vocab; ++v)
    sum += std::exp(capped(v) - top);
  const double lse = top + std::log(sum);
  unwrap(a.losses)[n] = weight * (lse - capped(target));
  if (!a.dlogits) return;
  const double scale = weight * loss_factor(a.step);
  // dlogits may share the memory of logits. Because elements are written in ascending order, a narrower
  // gradient never overwrites a logit that is still needed.
  for (int64_t v = 0; v < vocab; ++v) {
    const double z = capped(v);
    const double t = a.softcap > 0 ? z / (sharpness * a.softcap) : 0;
    const double slope = sharpness * (1 - t * t);
    set(a.dlogits, n, v, scale * (std::exp(z - lse) - (v == target ? 1 : 0)) * slope);
  }
}

}  // namespace

void cross_entropy(const ExecContext& ctx, const CrossEntropyArgs& a) noexcept {
  for_rows(ctx, a.logits.rows(), [&](int64_t n) { cross_entropy_row(a, n); });
}

void softcap(const ExecContext& ctx, const SoftcapArgs& a) noexcept {
  for_rows(ctx, a.x.rows(), [&](int64_t n) {
    for (int64_t c = 0; c < a.x.cols(); ++c)
      set(a.x, n, c, a.cap * std::tanh(get(a.x, n, c) / a.cap));
  });
}

}  // namespace gpt::ref
