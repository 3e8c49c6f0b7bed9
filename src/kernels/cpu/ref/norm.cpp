#include <cmath>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {
namespace {

template <class T>
void norm_row(const NormArgs& a, int64_t n) {
  const int64_t cols = a.x.cols();
  const T* x = a.x.row<T>(n);
  if (a.add) {
    const T* add = a.add.row<T>(n);
    T* sum = a.sum.row<T>(n);
    for (int64_t c = 0; c < cols; ++c)
      sum[c] = x[c] + add[c];
    x = sum;
  }
  double mean = 0;
  if (a.kind == NormKind::layer) {
    for (int64_t c = 0; c < cols; ++c)
      mean += x[c];
    mean /= static_cast<double>(cols);
  }
  double variance = 0;
  for (int64_t c = 0; c < cols; ++c)
    variance += (x[c] - mean) * (x[c] - mean);
  const double rstd = 1 / std::sqrt(variance / static_cast<double>(cols) + a.eps);
  T* out = a.out.row<T>(n);
  for (int64_t c = 0; c < cols; ++c) {
    const double normed = (x[c] - mean) * rstd;
    out[c] = static_cast<T>(normed * at_or<T>(a.gain, c, 1) + at_or<T>(a.bias, c, 0));
  }
  if (a.mean) a.mean.as<T>()[n] = static_cast<T>(mean);
  if (a.rstd) a.rstd.as<T>()[n] = static_cast<T>(rstd);
}

// With y = (x - mean) rstd and g = dout * gain:
//   dx = rstd (g - mean(g) - y mean(g y)), without the mean(g) term for RMSNorm.
template <class T>
void norm_backward_row(const NormBackwardArgs& a, int64_t n) {
  const int64_t cols = a.x.cols();
  const T* x = a.x.row<T>(n);
  const T* dout = a.dout.row<T>(n);
  const T* dresidual = a.dresidual ? a.dresidual.row<T>(n) : nullptr;
  const double mean = a.kind == NormKind::layer ? a.mean.as<T>()[n] : 0.0;
  const double rstd = a.rstd.as<T>()[n];
  double sum_g = 0, sum_gy = 0;
  for (int64_t c = 0; c < cols; ++c) {
    const double g = double{dout[c]} * at_or<T>(a.gain, c, 1);
    sum_g += g;
    sum_gy += g * (x[c] - mean) * rstd;
  }
  const double mean_g = a.kind == NormKind::layer ? sum_g / static_cast<double>(cols) : 0.0;
  const double mean_gy = sum_gy / static_cast<double>(cols);
  T* dx = a.dx.row<T>(n);
  for (int64_t c = 0; c < cols; ++c) {
    const double g = double{dout[c]} * at_or<T>(a.gain, c, 1);
    const double d = rstd * (g - mean_g - (x[c] - mean) * rstd * mean_gy);
    dx[c] = static_cast<T>(d + (dresidual ? dresidual[c] : T{0}));
  }
}

}  // namespace

void norm_forward(const ExecContext& ctx, const NormArgs& a) noexcept {
  dispatch(a.x.dtype, [&]<class T>(T) { for_rows(ctx, a.x.rows(), [&](int64_t n) { norm_row<T>(a, n); }); });
}

void norm_backward(const ExecContext& ctx, const NormBackwardArgs& a) noexcept {
  dispatch(a.x.dtype, [&]<class T>(T) {
    // Gain and bias first, since dx may overwrite dout.
    for_rows(ctx, a.dgain || a.dbias ? a.x.cols() : 0, [&](int64_t c) {
      double dgain = 0, dbias = 0;
      for (int64_t n = 0; n < a.x.rows(); ++n) {
        const double mean = a.kind == NormKind::layer ? a.mean.as<T>()[n] : 0.0;
        dgain += a.dout.row<T>(n)[c] * (a.x.row<T>(n)[c] - mean) * a.rstd.as<T>()[n];
        dbias += a.dout.row<T>(n)[c];
      }
      if (a.dgain) a.dgain.as<T>()[c] += static_cast<T>(dgain);
      if (a.dbias) a.dbias.as<T>()[c] += static_cast<T>(dbias);
    });
    for_rows(ctx, a.x.rows(), [&](int64_t n) { norm_backward_row<T>(a, n); });
  });
}

}  // namespace gpt::ref
