#pragma once

// Elementary functions on Vec. This header is only included by vec.h. NaN inputs always yield NaN, so that a
// training run that checks its results for NaN finds them. Errors are measured against double precision over
// the whole range.

namespace gpt::GPT_SIMD_NAMESPACE {

// Returns e^x within 1.5 ulp, 0 below -105, and inf above 88.73. Uses x = n ln 2 + r with |r| <= ln(2)/2 and
// e^r = 1 + r + r^2 P(r), where P has degree 4 (minimax over that interval).
GPT_INLINE Vec exp(Vec x) {
  // The constant is the first operand so that NaN passes through. Outside of the bounds the result is 0 or
  // inf anyway.
  x = min(set1(89.0f), max(set1(-105.0f), x));
  const Vec n = round(x * set1(1.44269504f));
  // ln 2 is split into two parts. n times the first part is exact inside the fma, so r has a single rounding
  // error.
  Vec r = fnma(n, set1(0x1.62e43p-1f), x);
  r = fnma(n, set1(-0x1.05c61p-29f), r);
  Vec p = set1(1.9875691e-4f);
  p = fma(p, r, set1(1.3981999e-3f));
  p = fma(p, r, set1(8.3334519e-3f));
  p = fma(p, r, set1(4.1665796e-2f));
  p = fma(p, r, set1(1.6666665e-1f));
  p = fma(p, r, set1(5.0000001e-1f));
  p = fma(p, r * r, r) + set1(1.0f);
  return scale2(p, n);
}

// Returns tanh x within 3 ulp. Near 0 it uses an odd polynomial, because 1 - 2/(e^2|x| + 1) would cancel
// there.
GPT_INLINE Vec tanh(Vec x) {
  const Vec a = abs(x);
  const Vec z = x * x;
  Vec p = set1(-5.7049887e-3f);
  p = fma(p, z, set1(2.0639088e-2f));
  p = fma(p, z, set1(-5.3739716e-2f));
  p = fma(p, z, set1(1.3331442e-1f));
  p = fma(p, z, set1(-3.3333282e-1f));
  const Vec small = fma(p * z, x, x);
  const Vec large = set1(1.0f) - set1(2.0f) / (exp(a + a) + set1(1.0f));
  return select(less(a, set1(0.625f)), small, copysign(large, x));
}

// The value s = 1/(1 + e^-x) and the slope s (1-s) of the logistic function, each within 4 ulp. The value and
// the slope are computed from e^-|x|, so neither suffers from cancellation.
struct Sigmoid {
  Vec value;
  Vec slope;
};
GPT_INLINE Sigmoid sigmoid(Vec x) {
  const Vec e = exp(zero() - abs(x));
  const Vec q = set1(1.0f) / (set1(1.0f) + e);
  return {select(less(x, zero()), e * q, q), e * q * q};
}

// The standard normal distribution: cdf = Phi(x) and gauss = e^(-x^2/2). The relative error of the lower tail
// is 5e-7 for x > -4. The absolute error is below 1e-7 everywhere. For |x| < 1, Phi(x) = 1/2 + x P(x^2),
// where P has degree 5 (relative error 7e-10 in exact arithmetic). Otherwise Phi(-a) = e^(-a^2/2) t Q(t) with
// t = 1/(1 + 0.3 a), a >= 0, where Q has degree 9 (relative error 6e-9 for a up to 20). P and Q are
// least-squares fits to the exact function on Chebyshev nodes, reweighted towards a minimax fit.
struct Normal {
  Vec cdf;
  Vec gauss;
};
GPT_INLINE Normal normal(Vec x) {
  const Vec a = abs(x);
  const Vec gauss = exp(set1(-0.5f) * a * a);
  const Vec t = set1(1.0f) / fma(set1(0.3f), a, set1(1.0f));
  Vec q = set1(-1.998246199e-2f);
  q = fma(q, t, set1(1.091788434e-1f));
  q = fma(q, t, set1(-2.210951794e-1f));
  q = fma(q, t, set1(1.830254549e-1f));
  q = fma(q, t, set1(-7.275811111e-2f));
  q = fma(q, t, set1(9.291470806e-2f));
  q = fma(q, t, set1(7.939429343e-2f));
  q = fma(q, t, set1(1.100447983e-1f));
  q = fma(q, t, set1(1.195918552e-1f));
  q = fma(q, t, set1(1.196858022e-1f));
  const Vec tail = gauss * (q * t);
  const Vec outer = select(less(x, zero()), tail, set1(1.0f) - tail);
  const Vec z = x * x;
  Vec p = set1(-7.654207628e-6f);
  p = fma(p, z, set1(1.134863701e-4f));
  p = fma(p, z, set1(-1.186329940e-3f));
  p = fma(p, z, set1(9.973323409e-3f));
  p = fma(p, z, set1(-6.649035992e-2f));
  p = fma(p, z, set1(3.989422801e-1f));
  return {select(less(a, set1(1.0f)), fma(p, x, set1(0.5f)), outer), gauss};
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
