#include <cmath>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void rope(const ExecContext& ctx, const RopeArgs& a) noexcept {
  const int64_t half = a.head_dim / 2;
  for_rows(ctx, a.x.rows(), [&](int64_t n) {
    for (int64_t h = 0; h < a.n_head; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t first = h * a.head_dim + (a.interleaved ? 2 * i : i);
        const int64_t second = first + (a.interleaved ? 1 : half);
        const double x = get(a.x, n, first), y = get(a.x, n, second);
        const double c = get(a.cos, unwrap(a.positions)[n], i),
                     s = a.sign * get(a.sin, unwrap(a.positions)[n], i);
        set(a.x, n, first, x * c - y * s);
        set(a.x, n, second, y * c + x * s);
      }
    }
  });
}

void qk_norm_forward(const ExecContext& ctx, const QkNormArgs& a) noexcept {
  for_rows(ctx, a.x.rows(), [&](int64_t n) {
    for (int64_t h = 0; h < a.n_head; ++h) {
      const int64_t begin = h * a.head_dim, end = begin + a.head_dim;
      double squares = 0;
      for (int64_t i = begin; i < end; ++i)
        squares += get(a.x, n, i) * get(a.x, n, i);
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(a.head_dim) + a.eps);
      for (int64_t i = begin; i < end; ++i) {
        const double y = get(a.x, n, i) * rstd;
        if (a.normed) set(a.normed, n, i, y);
        set(a.x, n, i, y * at_or(a.gain, i - begin, 1));
      }
      if (a.rstd) set(a.rstd, n, h, rstd);
    }
  });
}

void qk_norm_backward(const ExecContext& ctx, const QkNormBackwardArgs& a) noexcept {
  // The gradient of the gain is computed first, because dx overwrites dy.
  for_rows(ctx, a.dgain ? a.head_dim : 0, [&](int64_t i) {
    double sum = a.accumulate ? get(a.dgain, 0, i) : 0;
    for (int64_t n = 0; n < a.dx.rows(); ++n) {
      for (int64_t h = 0; h < a.n_head; ++h)
        sum += get(a.dx, n, h * a.head_dim + i) * get(a.y, n, h * a.head_dim + i);
    }
    set(a.dgain, 0, i, sum);
  });
  for_rows(ctx, a.dx.rows(), [&](int64_t n) {
    for (int64_t h = 0; h < a.n_head; ++h) {
      const int64_t begin = h * a.head_dim, end = begin + a.head_dim;
      const auto g = [&](int64_t i) { return get(a.dx, n, i) * at_or(a.gain, i - begin, 1); };
      double dot = 0;
      for (int64_t i = begin; i < end; ++i)
        dot += g(i) * get(a.y, n, i);
      dot /= static_cast<double>(a.head_dim);
      const double rstd = get(a.rstd, n, h);
      for (int64_t i = begin; i < end; ++i)
        set(a.dx, n, i, rstd * (g(i) - get(a.y, n, i) * dot));
    }
  });
}

}  // namespace gpt::ref
