#pragma once

// Implements Vec for AVX2 + FMA. This header is only included by vec.h.

namespace gpt::GPT_SIMD_NAMESPACE {

struct Mask {
  __m256 bits;  // every lane is all ones or all zeros
};

// Returns a mask of the first n lanes, 0 <= n <= kLanes.
GPT_INLINE Mask first_lanes(int64_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane))};
}
// Masked loads set lanes outside the mask to 0. Masked loads and stores do not access the memory of these
// lanes.
GPT_INLINE Vec load(const float* p, Mask m) {
  return _mm256_maskload_ps(p, _mm256_castps_si256(m.bits));
}
GPT_INLINE void store(float* p, Vec v, Mask m) {
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.bits), v);
}

GPT_INLINE Vec abs(Vec a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
GPT_INLINE Vec round(Vec a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
GPT_INLINE Vec copysign(Vec magnitude, Vec sign) {
  return _mm256_or_ps(abs(magnitude), _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}

GPT_INLINE Mask less(Vec a, Vec b) {
  return {_mm256_cmp_ps(a, b, _CMP_LT_OQ)};
}
GPT_INLINE Vec select(Mask m, Vec yes, Vec no) {
  return _mm256_blendv_ps(no, yes, m.bits);
}

// Returns x 2^n for integers n in [-150, 128], rounded once. Multiplies by two factors, because 2^n itself
// may not be a normal float.
GPT_INLINE Vec scale2(Vec x, Vec n) {
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const Vec a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const Vec b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return x * a * b;
}

// Reductions combine lanes i and i + kLanes/2, then i and i + kLanes/4, and so on.
GPT_INLINE float reduce_add(Vec v) {
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
GPT_INLINE float reduce_max(Vec v) {
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

// Loads n <= kLanes/2 floats, each into two adjacent lanes.
GPT_INLINE Vec load_twice(const float* p, int64_t n) {
  return _mm256_permutevar8x32_ps(load(p, first_lanes(n)), _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}

GPT_INLINE int32_t reduce_add(IVec v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}
GPT_INLINE int32_t reduce_max(IVec v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}
// Stores every lane as a byte. Values must be in -128 to 127.
GPT_INLINE void store_i8(void* p, IVec v) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(static_cast<__m128i*>(p), _mm_packs_epi16(words, words));
}
GPT_INLINE Mask less_equal_u(IVec a, IVec b) {
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_min_epu32(a, b), a))};
}
GPT_INLINE IVec select(Mask m, IVec yes, IVec no) {
  return _mm256_blendv_epi8(no, yes, _mm256_castps_si256(m.bits));
}
// Computes the upper and lower half of the 64-bit products of the lanes of a and b. All lanes of b must be
// equal.
GPT_INLINE void multiply_wide(IVec a, IVec b, IVec* high, IVec* low) {
  const __m256i even = _mm256_mul_epu32(a, b);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
  *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

// Transposes a matrix of kLanes rows of one vector each.
GPT_INLINE void transpose(Vec (&r)[8]) {
  Vec t[8];
  for (int g = 0; g < 8; g += 4) {
    const Vec a = _mm256_unpacklo_ps(r[g], r[g + 1]);
    const Vec b = _mm256_unpackhi_ps(r[g], r[g + 1]);
    const Vec c = _mm256_unpacklo_ps(r[g + 2], r[g + 3]);
    const Vec d = _mm256_unpackhi_ps(r[g + 2], r[g + 3]);
    t[g] = _mm256_shuffle_ps(a, c, 0x44);
    t[g + 1] = _mm256_shuffle_ps(a, c, 0xee);
    t[g + 2] = _mm256_shuffle_ps(b, d, 0x44);
    t[g + 3] = _mm256_shuffle_ps(b, d, 0xee);
  }
  for (int j = 0; j < 4; ++j) {
    r[j] = _mm256_permute2f128_ps(t[j], t[j + 4], 0x20);
    r[j + 4] = _mm256_permute2f128_ps(t[j], t[j + 4], 0x31);
  }
}

GPT_INLINE VecD low_d(Vec v) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}
GPT_INLINE VecD high_d(Vec v) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}
// Converts two halves of doubles to a Vec.
GPT_INLINE Vec narrow(VecD low, VecD high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high), 1);
}
GPT_INLINE double reduce_add(VecD v) {
  const __m128d b = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
