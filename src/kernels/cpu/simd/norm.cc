#include "kernels/cpu/simd/row_sets.h"

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

struct Moments {
  float mean;   // first approximation of the mean, rounded to float
  float shift;  // correction: the true mean is mean + shift
  double rstd;
};

double reciprocal_root(double x) {
  return 1 / __builtin_sqrt(x);
}

float row_sum(const float* x, int64_t n) {
  Vec sum[4] = {zero(), zero(), zero(), zero()};
  for_vectors_by_4(n, [&](int k, int64_t i, auto lanes) { sum[k] += load(x + i, lanes); });
  return reduce_add(sum);
}

template <class E>
float row_squares(const E* x, int64_t n) {
  Vec sum[4] = {zero(), zero(), zero(), zero()};
  for_vectors_by_4(n, [&](int k, int64_t i, auto lanes) {
    const Vec v = load(x + i, lanes);
    sum[k] = fma(v, v, sum[k]);
  });
  return reduce_add(sum);
}

// Computes the variance around the rounded mean, then corrects both the mean and the variance. For values far
// from zero, the rounding error of a float mean would exceed the error allowed in the result (Chan, Golub &
// LeVeque 1983, the corrected two-pass algorithm).
Moments centered_moments(const float* x, int64_t n, double eps) {
  const auto count = static_cast<double>(n);
  const auto mean = static_cast<float>(row_sum(x, n) / count);
  Vec sum[4] = {zero(), zero(), zero(), zero()};
  Vec squares[4] = {zero(), zero(), zero(), zero()};
  const Vec center = set1(mean);
  const auto step = [&](int k, Vec d) {
    sum[k] += d;
    squares[k] = fma(d, d, squares[k]);
  };
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k)
      step(k, load(x + i + k * kLanes) - center);
  }
  for (; i + kLanes <= n; i += kLanes)
    step(0, load(x + i) - center);
  if (i < n) {
    const Mask lanes = first_lanes(n - i);
    step(1, select(lanes, load(x + i, lanes) - center, zero()));
  }
  const double shift = reduce_add(sum) / count;
  const double variance = reduce_add(squares) / count - shift * shift;
  return {mean, static_cast<float>(shift), reciprocal_root((variance < 0 ? 0 : variance) + eps)};
}

void add_rows(float* sum, const float* x, const void* add_row, Stored type, int64_t n) {
  with_float_type(type, add_row, [=](const auto* add) GPT_ALWAYS_INLINE {
    for_vectors(
        n, [=](int64_t i, auto lanes) { store(sum + i, load(x + i, lanes) + load(add + i, lanes), lanes); });
  });
}

template <class Out>
void write_normed(const NormRow& r, const float* x, const Moments& m, Out* out) {
  const Vec mean = set1(m.mean), shift = set1(m.shift), rstd = set1(static_cast<float>(m.rstd));
  const float* const gain = r.gain;
  const float* const bias = r.bias;
  for_vectors(r.n, [=](int64_t i, auto lanes) {
    Vec y = ((load(x + i, lanes) - mean) - shift) * rstd;
    if (gain != nullptr) y = y * load(gain + i, lanes);
    if (bias != nullptr) y = y + load(bias + i, lanes);
    store(out + i, y, lanes);
  });
}

void norm(const NormRow& r) {
  if (r.add != nullptr) add_rows(r.sum, r.x, r.add, r.add_type, r.n);
  const float* const x = r.add != nullptr ? r.sum : r.x;
  Moments m{0, 0, 0};
  if (r.center) {
    m = centered_moments(x, r.n, r.eps);
  } else {
    m.rstd = reciprocal_root(row_squares(x, r.n) / static_cast<double>(r.n) + r.eps);
  }
  with_float_type(r.out_type, r.out, [&](auto* out) { write_normed(r, x, m, out); });
  if (r.mean != nullptr) *r.mean = static_cast<float>(double{m.mean} + double{m.shift});
  if (r.rstd != nullptr) *r.rstd = static_cast<float>(m.rstd);
}

// Computes dx = rstd (g - mean(g) - y mean(g y)) (+ dresidual), where y = (x - mean) rstd and g = dout *
// gain.
template <class E>
void norm_backward_typed(const NormBackwardRow& r, const E* dout) {
  const Vec mean = set1(r.mean), rstd = set1(r.rstd);
  const float* const x = r.x;
  const float* const gain = r.gain;
  const auto scaled = [=](int64_t i, auto lanes, Vec d)
                          GPT_ALWAYS_INLINE { return gain != nullptr ? d * load(gain + i, lanes) : d; };
  Vec sum_g[4] = {zero(), zero(), zero(), zero()};
  Vec sum_gy[4] = {zero(), zero(), zero(), zero()};
  // Local copies of the pointers. The compiler would otherwise read them from `r` again after every store.
  float* const dgain = r.dgain;
  float* const dbias = r.dbias;
  const bool first = r.first;
  for_vectors_by_4(r.n, [&](int k, int64_t i, auto lanes) GPT_ALWAYS_INLINE {
    const Vec y = (load(x + i, lanes) - mean) * rstd;
    const Vec d = load(dout + i, lanes);
    const Vec g = scaled(i, lanes, d);
    sum_g[k] += g;
    sum_gy[k] = fma(g, y, sum_gy[k]);
    if (dgain != nullptr) store(dgain + i, first ? d * y : fma(d, y, load(dgain + i, lanes)), lanes);
    if (dbias != nullptr) store(dbias + i, first ? d : d + load(dbias + i, lanes), lanes);
  });
  const auto count = static_cast<float>(r.n);
  const Vec mean_g = set1(r.center ? reduce_add(sum_g) / count : 0.0f);
  const Vec mean_gy = set1(reduce_add(sum_gy) / count);
  float* const dx = r.dx;
  const float* const dresidual = r.dresidual;
  for_vectors(r.n, [=](int64_t i, auto lanes) GPT_ALWAYS_INLINE {
    const Vec y = (load(x + i, lanes) - mean) * rstd;
    Vec d = rstd * fnma(y, mean_gy, scaled(i, lanes, load(dout + i, lanes)) - mean_g);
    if (dresidual != nullptr) d = d + load(dresidual + i, lanes);
    store(dx + i, d, lanes);
  });
}

void norm_backward(const NormBackwardRow& r) {
  with_float_type(r.dout_type, r.dout, [&](const auto* dout) { norm_backward_typed(r, dout); });
}

void add_partials(float* out, const float* partials, int64_t blocks, int64_t stride, int64_t n) {
  for_vectors(n, [=](int64_t i, auto lanes) {
    VecD low = zero_d(), high = zero_d();
    for (int64_t b = 0; b < blocks; ++b) {
      const Vec v = load(partials + b * stride + i, lanes);
      low += low_d(v);
      high += high_d(v);
    }
    store(out + i, load(out + i, lanes) + narrow(low, high), lanes);
  });
}

template <class E>
float qk_norm(void* row, int64_t n, double eps) {
  auto* const x = static_cast<E*>(row);
  const double rstd = reciprocal_root(row_squares(x, n) / static_cast<double>(n) + eps);
  const Vec scale = set1(static_cast<float>(rstd));
  for_vectors(n, [=](int64_t i, auto lanes) { store(x + i, load(x + i, lanes) * scale, lanes); });
  return static_cast<float>(rstd);
}

template <class E>
void qk_norm_backward(void* dx_row, const void* y_row, int64_t n, float rstd) {
  auto* const dx = static_cast<E*>(dx_row);
  const auto* const y = static_cast<const E*>(y_row);
  Vec dot[4] = {zero(), zero(), zero(), zero()};
  for_vectors_by_4(n, [&](int k, int64_t i, auto lanes) {
    dot[k] = fma(load(dx + i, lanes), load(y + i, lanes), dot[k]);
  });
  const Vec mean = set1(reduce_add(dot) / static_cast<float>(n)), scale = set1(rstd);
  for_vectors(n, [=](int64_t i, auto lanes) {
    store(dx + i, scale * fnma(load(y + i, lanes), mean, load(dx + i, lanes)), lanes);
  });
}

template <class E>
void set_type(OneTypeKernels& k) {
  k.qk_norm = qk_norm<E>;
  k.qk_norm_backward = qk_norm_backward<E>;
}

}  // namespace

void set_norm(RowKernels& k) noexcept {
  k.norm = norm;
  k.norm_backward = norm_backward;
  k.add_partials = add_partials;
  set_type<float>(k.f32);
  set_type<Bf16>(k.bf16);
  set_type<F16>(k.f16);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
