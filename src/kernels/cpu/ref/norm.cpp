#include <cmath>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {
namespace {

void norm_row(const NormArgs& a, int64_t n) {
  const int64_t cols = a.x.cols();
  for (int64_t c = 0; a.add && c < cols; ++c)
    set(a.sum, n, c, get(a.x, n, c) + get(a.add, n, c));
  // The norm uses the sum as stored, rounded to its dtype, because the backward pass reads the stored sum.
  const TensorView& x = a.add ? a.sum : a.x;
  double mean = 0;
  if (a.kind == NormKind::layer) {
    for (int64_t c = 0; c < cols; ++c)
      mean += get(x, n, c);
    mean /= static_cast<double>(cols);
  }
  double variance = 0;
  for (int64_t c = 0; c < cols; ++c) {
    const double d = get(x, n, c) - mean;
    variance += d * d;
  }
  const double rstd = 1 / std::sqrt(variance / static_cast<double>(cols) + a.eps);
  for (int64_t c = 0; c < cols; ++c) {
    const double normed = (get(x, n, c) - mean) * rstd;
    set(a.out, n, c, normed * at_or(a.gain, c, 1) + at_or(a.bias, c, 0));
  }
  if (a.mean) set(a.mean, 0, n, mean);
  if (a.rstd) set(a.rstd, 0, n, rstd);
}

// With y = (x - mean) rstd and g = dout * gain, the gradient is
//   dx = rstd (g - mean(g) - y mean(g y)), without the mean(g) term for RMSNorm.
void norm_backward_row(const NormBackwardArgs& a, int64_t n) {
  const int64_t cols = a.x.cols();
  const bool layer = a.kind == NormKind::layer;
  const double mean = layer ? get(a.mean, 0, n) : 0;
  const double rstd = get(a.rstd, 0, n);
  const auto g = [&](int64_t c) { return get(a.dout, n, c) * at_or(a.gain, c, 1); };
  const auto y = [&](int64_t c) { return (get(a.x, n, c) - mean) * rstd; };
  double sum_g = 0, sum_gy = 0;
  for (int64_t c = 0; c < cols; ++c) {
    sum_g += g(c);
    sum_gy += g(c) * y(c);
  }
  const double mean_g = layer ? sum_g / static_cast<double>(cols) : 0;
  const double mean_gy = sum_gy / static_cast<double>(cols);
  for (int64_t c = 0; c < cols; ++c) {
    const double d = rstd * (g(c) - mean_g - y(c) * mean_gy);
    set(a.dx, n, c, d + (a.dresidual ? get(a.dresidual, n, c) : 0));
  }
}

void norm_backward_column(const NormBackwardArgs& a, int64_t c) {
  double dgain = 0, dbias = 0;
  for (int64_t n = 0; n < a.x.rows(); ++n) {
    const double mean = a.kind == NormKind::layer ? get(a.mean, 0, n) : 0;
    const double d = get(a.dout, n, c);
    dgain += d * (get(a.x, n, c) - mean) * get(a.rstd, 0, n);
    dbias += d;
  }
  const auto put = [&](const TensorView& d, double sum) {
    if (d) set(d, 0, c, (a.accumulate ? get(d, 0, c) : 0) + sum);
  };
  put(a.dgain, dgain);
  put(a.dbias, dbias);
}

}  // namespace

void norm_forward(const ExecContext& ctx, const NormArgs& a) noexcept {
  for_rows(ctx, a.x.rows(), [&](int64_t n) { norm_row(a, n); });
}

void norm_backward(const ExecContext& ctx, const NormBackwardArgs& a) noexcept {
  // The gradients of gain and bias are computed first, because dx may overwrite dout.
  for_rows(ctx, a.dgain || a.dbias ? a.x.cols() : 0, [&](int64_t c) { norm_backward_column(a, c); });
  for_rows(ctx, a.x.rows(), [&](int64_t n) { norm_backward_row(a, n); });
}

}  // namespace gpt::ref
