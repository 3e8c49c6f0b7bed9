#include <cmath>
#include <limits>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {
namespace {

template <class T>
void cross_entropy_row(const CrossEntropyArgs& a, int64_t n) {
  const int64_t vocab = a.logits.cols();
  const T* x = a.logits.row<T>(n);
  T* dx = a.dlogits ? a.dlogits.row<T>(n) : nullptr;
  const int32_t target = a.targets[n];
  a.losses[n] = 0;
  if (target < 0) {
    if (dx) std::fill_n(dx, vocab, T{0});
    return;
  }
  const auto capped = [&](int64_t v) {
    return a.softcap > 0 ? a.softcap * std::tanh(x[v] / a.softcap) : double{x[v]};
  };
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t v = 0; v < vocab; ++v)
    top = std::max(top, capped(v));
  double sum = 0;
  for (int64_t v = 0; v < vocab; ++v)
    sum += std::exp(capped(v) - top);
  const double lse = top + std::log(sum);
  a.losses[n] = lse - capped(target);
  if (dx == nullptr) return;
  for (int64_t v = 0; v < vocab; ++v) {
    const double z = capped(v);
    const double slope = a.softcap > 0 ? 1 - (z / a.softcap) * (z / a.softcap) : 1;
    dx[v] = static_cast<T>(a.scale * (std::exp(z - lse) - (v == target ? 1 : 0)) * slope);
  }
}

}  // namespace

void cross_entropy(const ExecContext& ctx, const CrossEntropyArgs& a) noexcept {
  dispatch(a.logits.dtype, [&]<class T>(T) {
    for_rows(ctx, a.logits.rows(), [&](int64_t n) { cross_entropy_row<T>(a, n); });
  });
}

void softcap(const ExecContext& ctx, const SoftcapArgs& a) noexcept {
  dispatch(a.x.dtype, [&]<class T>(T) {
    for_rows(ctx, a.x.rows(), [&](int64_t n) {
      T* x = a.x.row<T>(n);
      for (int64_t c = 0; c < a.x.cols(); ++c)
        x[c] = static_cast<T>(a.cap * std::tanh(x[c] / a.cap));
    });
  });
}

}  // namespace gpt::ref
