#include <cmath>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void rope(const ExecContext& ctx, const RopeArgs& a) noexcept {
  dispatch(a.x.dtype, [&]<class T>(T) {
    const int64_t half = a.head_dim / 2;
    for_rows(ctx, a.x.rows(), [&](int64_t n) {
      const T* cos = a.cos.row<T>(a.positions[n]);
      const T* sin = a.sin.row<T>(a.positions[n]);
      for (int64_t h = 0; h < a.n_head; ++h) {
        T* x = a.x.row<T>(n) + h * a.head_dim;
        for (int64_t i = 0; i < half; ++i) {
          T& first = a.interleaved ? x[2 * i] : x[i];
          T& second = a.interleaved ? x[2 * i + 1] : x[i + half];
          const T s = static_cast<T>(a.sign) * sin[i];
          const T rotated = first * cos[i] - second * s;
          second = second * cos[i] + first * s;
          first = rotated;
        }
      }
    });
  });
}

void head_norm_forward(const ExecContext& ctx, const HeadNormArgs& a) noexcept {
  dispatch(a.x.dtype, [&]<class T>(T) {
    for_rows(ctx, a.x.rows(), [&](int64_t n) {
      for (int64_t h = 0; h < a.n_head; ++h) {
        T* x = a.x.row<T>(n) + h * a.head_dim;
        double squares = 0;
        for (int64_t i = 0; i < a.head_dim; ++i)
          squares += double{x[i]} * x[i];
        const double rstd = 1 / std::sqrt(squares / static_cast<double>(a.head_dim) + a.eps);
        for (int64_t i = 0; i < a.head_dim; ++i)
          x[i] = static_cast<T>(x[i] * rstd);
        if (a.rstd) a.rstd.row<T>(n)[h] = static_cast<T>(rstd);
      }
    });
  });
}

void head_norm_backward(const ExecContext& ctx, const HeadNormBackwardArgs& a) noexcept {
  dispatch(a.dx.dtype, [&]<class T>(T) {
    for_rows(ctx, a.dx.rows(), [&](int64_t n) {
      for (int64_t h = 0; h < a.n_head; ++h) {
        T* dx = a.dx.row<T>(n) + h * a.head_dim;
        const T* y = a.y.row<T>(n) + h * a.head_dim;
        double dot = 0;
        for (int64_t i = 0; i < a.head_dim; ++i)
          dot += double{dx[i]} * y[i];
        dot /= static_cast<double>(a.head_dim);
        const double rstd = a.rstd.row<T>(n)[h];
        for (int64_t i = 0; i < a.head_dim; ++i)
          dx[i] = static_cast<T>(rstd * (dx[i] - y[i] * dot));
      }
    });
  });
}

}  // namespace gpt::ref
