#include "kernels/cpu/simd/row_sets.h"

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

struct Moments {
  float mean;   // the first guess: the rounded mean
  float shift;  // what the true mean has on top of it
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

float row_squares(const float* x, int64_t n) {
  Vec sum[4] = {zero(), zero(), zero(), zero()};
  for_vectors_by_4(n, [&](int k, int64_t i, auto lanes) {
    const Vec v = load(x + i, lanes);
    sum[k] = fma(v, v, sum[k]);
  });
  return reduce_add(sum);
}

// The variance around the rounded mean, and the correction of both: a float mean of values far from zero is
// off by more than the result may be (Chan, Golub & LeVeque 1983, the corrected two-pass algorithm).
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

void norm(const NormRow& r) {
  const float* x = r.x;
  if (r.add != nullptr) {
    float* const sum = r.sum;
    const float* const from = r.x;
    const float* const add = r.add;
    for_vectors(r.n, [=](int64_t i, auto lanes) {
      store(sum + i, load(from + i, lanes) + load(add + i, lanes), lanes);
    });
    x = r.sum;
  }
  Moments m{0, 0, 0};
  if (r.center) {
    m = centered_moments(x, r.n, r.eps);
  } else {
    m.rstd = reciprocal_root(row_squares(x, r.n) / static_cast<double>(r.n) + r.eps);
  }
  const Vec mean = set1(m.mean), shift = set1(m.shift), rstd = set1(static_cast<float>(m.rstd));
  float* const out = r.out;
  const float* const gain = r.gain;
  const float* const bias = r.bias;
  for_vectors(r.n, [=](int64_t i, auto lanes) {
    Vec y = ((load(x + i, lanes) - mean) - shift) * rstd;
    if (gain != nullptr) y = y * load(gain + i, lanes);
    if (bias != nullptr) y = y + load(bias + i, lanes);
    store(out + i, y, lanes);
  });
  if (r.mean != nullptr) *r.mean = static_cast<float>(double{m.mean} + double{m.shift});
  if (r.rstd != nullptr) *r.rstd = static_cast<float>(m.rstd);
}

// With y = (x - mean) rstd and g = dout * gain: dx = rstd (g - mean(g) - y mean(g y)) (+ dresidual).
void norm_backward(const NormBackwardRow& r) {
  const Vec mean = set1(r.mean), rstd = set1(r.rstd);
  const float* const dout = r.dout;
  const float* const x = r.x;
  const float* const gain = r.gain;
  const auto scaled = [=](int64_t i, auto lanes) {
    const Vec d = load(dout + i, lanes);
    return gain != nullptr ? d * load(gain + i, lanes) : d;
  };
  Vec sum_g[4] = {zero(), zero(), zero(), zero()};
  Vec sum_gy[4] = {zero(), zero(), zero(), zero()};
  for_vectors_by_4(r.n, [&](int k, int64_t i, auto lanes) {
    const Vec y = (load(x + i, lanes) - mean) * rstd;
    const Vec d = load(dout + i, lanes);
    const Vec g = scaled(i, lanes);
    sum_g[k] += g;
    sum_gy[k] = fma(g, y, sum_gy[k]);
    if (r.dgain != nullptr) store(r.dgain + i, r.first ? d * y : fma(d, y, load(r.dgain + i, lanes)), lanes);
    if (r.dbias != nullptr) store(r.dbias + i, r.first ? d : d + load(r.dbias + i, lanes), lanes);
  });
  const auto count = static_cast<float>(r.n);
  const Vec mean_g = set1(r.center ? reduce_add(sum_g) / count : 0.0f);
  const Vec mean_gy = set1(reduce_add(sum_gy) / count);
  float* const dx = r.dx;
  const float* const dresidual = r.dresidual;
  for_vectors(r.n, [=](int64_t i, auto lanes) {
    const Vec y = (load(x + i, lanes) - mean) * rstd;
    Vec d = rstd * fnma(y, mean_gy, scaled(i, lanes) - mean_g);
    if (dresidual != nullptr) d = d + load(dresidual + i, lanes);
    store(dx + i, d, lanes);
  });
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

float head_norm(float* x, int64_t n, double eps) {
  const double rstd = reciprocal_root(row_squares(x, n) / static_cast<double>(n) + eps);
  const Vec scale = set1(static_cast<float>(rstd));
  for_vectors(n, [=](int64_t i, auto lanes) { store(x + i, load(x + i, lanes) * scale, lanes); });
  return static_cast<float>(rstd);
}

void head_norm_backward(float* dx, const float* y, int64_t n, float rstd) {
  Vec dot[4] = {zero(), zero(), zero(), zero()};
  for_vectors_by_4(n, [&](int k, int64_t i, auto lanes) {
    dot[k] = fma(load(dx + i, lanes), load(y + i, lanes), dot[k]);
  });
  const Vec mean = set1(reduce_add(dot) / static_cast<float>(n)), scale = set1(rstd);
  for_vectors(n, [=](int64_t i, auto lanes) {
    store(dx + i, scale * fnma(load(y + i, lanes), mean, load(dx + i, lanes)), lanes);
  });
}

}  // namespace

void set_norm(RowKernels& k) noexcept {
  k.norm = norm;
  k.norm_backward = norm_backward;
  k.add_partials = add_partials;
  k.head_norm = head_norm;
  k.head_norm_backward = head_norm_backward;
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
