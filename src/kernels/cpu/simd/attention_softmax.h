#pragma once

#include "kernels/cpu/simd/attention_internal.h"

// Computes the online softmax of a tile of scores S = Q K^T (Milakov & Gimelshein 2018). It uses powers of 2,
// because the factor of the scores includes log2(e).
//
//   m' = max(m, row maximum of S)      alpha = 2^(m - m')
//   P = 2^(S - m')                     l = alpha l + row sum of P, kept per vector lane
//   O = alpha O + P V                  (attention.cc)

namespace gpt::GPT_SIMD_NAMESPACE {

// Returns 2^x within 1 ulp for x <= 128, and 0 below -150. NaN stays NaN. Uses x = n + r with |r| <= 1/2 and
// 2^r = 1 + r P(r), where P has degree 5 (minimax over that interval, relative error 2e-9).
GPT_INLINE Vec exp2(Vec x) {
  x = max(set1(-150.0f), x);
  const Vec n = round(x);
  const Vec r = x - n;
  Vec p = set1(1.53533605e-4f);
  p = fma(p, r, set1(1.3398875e-3f));
  p = fma(p, r, set1(9.61843692e-3f));
  p = fma(p, r, set1(5.55033237e-2f));
  p = fma(p, r, set1(2.40226477e-1f));
  p = fma(p, r, set1(6.93147182e-1f));
  return scale2(fma(p, r, set1(1.0f)), n);
}

// Returns vector v of a tile row, with `other` in the lanes outside of [begin, end).
GPT_INLINE Vec within(Vec x, int64_t begin, int64_t end, int64_t v, Vec other) {
  const int64_t at = v * kLanes;
  if (begin <= at && at + kLanes <= end) return x;
  x = select(first_lanes(least(kLanes, most(0, end - at))), x, other);
  return select(first_lanes(least(kLanes, most(0, begin - at))), other, x);
}

// Returns the maximum of a row of scores over [begin, end).
GPT_INLINE float row_max(const float* s, int64_t begin, int64_t end) {
  const Vec none = set1(-__FLT_MAX__);
  Vec m = none;
  for (int64_t v = begin / kLanes; v * kLanes < end; ++v) {
    m = max(m, within(load(s + v * kLanes), begin, end, v, none));
  }
  return reduce_max(m);
}

GPT_INLINE void multiply_row(float* s, int64_t begin, int64_t end, const float* factors) {
  for (int64_t v = begin / kLanes; v * kLanes < end; ++v)
    store(s + v * kLanes, load(s + v * kLanes) * load(factors + v * kLanes));
}

// Updates the running maxima of a block of rows. alpha [kLanes] receives the factors that rescale all earlier
// sums.
GPT_INLINE void raise_maxima(const AttentionForwardTile& t, int64_t first, int64_t rows, const float* s,
                             float* alpha) {
  for (int64_t r = 0; r < kLanes; ++r)
    alpha[r] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = first + r;
    if (t.begin[i] >= t.end[i]) continue;
    const float top = row_max(s + r * kKeyTile, t.begin[i], t.end[i]) * t.scale;
    const float raised = top < t.max[i] ? t.max[i] : top;
    alpha[r] = t.max[i] - raised;
    t.max[i] = raised;
  }
  store(alpha, exp2(load(alpha)));
}

// Converts vector v of a row of scores to weights relative to the maximum `top`. Keys outside of [begin, end)
// get the weight zero, because the row does not attend to them.
GPT_INLINE Vec weights_of(Vec scores, Vec scale, Vec top, int64_t begin, int64_t end, int64_t v) {
  return within(exp2(fma(scores, scale, zero() - top)), begin, end, v, zero());
}

// Converts the scores of a block of rows to weights, in place. Updates the running maxima and denominators of
// the rows, and sets alpha [kLanes].
GPT_INLINE void softmax_block(const AttentionForwardTile& t, int64_t first, int64_t rows, float* s,
                              float* alpha) {
  for (int64_t r = 0; t.k_scale != nullptr && r < rows; ++r)
    multiply_row(s + r * kKeyTile, t.begin[first + r], t.end[first + r], t.k_scale);
  raise_maxima(t, first, rows, s, alpha);
  const Vec scale = set1(t.scale);
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = first + r;
    if (t.begin[i] >= t.end[i]) continue;
    float* row = s + r * kKeyTile;
    const Vec top = set1(t.max[i]);
    Vec total = load(t.sum + i * kLanes) * set1(alpha[r]);
    for (int64_t v = t.begin[i] / kLanes; v * kLanes < t.end[i]; ++v) {
      const Vec p = weights_of(load(row + v * kLanes), scale, top, t.begin[i], t.end[i], v);
      total = total + p;
      store(row + v * kLanes, t.keep == nullptr ? p : p * load(t.keep + i * kKeyTile + v * kLanes));
    }
    store(t.sum + i * kLanes, total);
    if (t.v_scale != nullptr) multiply_row(row, t.begin[i], t.end[i], t.v_scale);
  }
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
