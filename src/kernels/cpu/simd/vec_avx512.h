#pragma once

// Implements Vec for AVX-512 F, BW, VL and DQ. This header is only included by vec.h.

namespace gpt::GPT_SIMD_NAMESPACE {

using Mask = __mmask16;

// Returns a mask of the first n lanes, 0 <= n <= kLanes.
GPT_INLINE Mask first_lanes(int64_t n) {
  return static_cast<Mask>((uint32_t{1} << static_cast<uint32_t>(n)) - 1);
}
// Masked loads set lanes outside the mask to 0. Masked loads and stores do not access the memory of these
// lanes.
GPT_INLINE Vec load(const float* p, Mask m) {
  return _mm512_maskz_loadu_ps(m, p);
}
GPT_INLINE void store(float* p, Vec v, Mask m) {
  _mm512_mask_storeu_ps(p, m, v);
}

GPT_INLINE Vec abs(Vec a) {
  return _mm512_abs_ps(a);
}
GPT_INLINE Vec round(Vec a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
GPT_INLINE Vec copysign(Vec magnitude, Vec sign) {
  return _mm512_or_ps(_mm512_abs_ps(magnitude), _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}

GPT_INLINE Mask less(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
GPT_INLINE Vec select(Mask m, Vec yes, Vec no) {
  return _mm512_mask_blend_ps(m, no, yes);
}

// Returns x 2^n for integers n in [-150, 128], rounded once.
GPT_INLINE Vec scale2(Vec x, Vec n) {
  return _mm512_scalef_ps(x, n);
}

// Reductions combine lanes i and i + kLanes/2, then i and i + kLanes/4, and so on.
GPT_INLINE float reduce_add(Vec v) {
  const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
GPT_INLINE float reduce_max(Vec v) {
  const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

// Loads n <= kLanes/2 floats, each into two adjacent lanes.
GPT_INLINE Vec load_twice(const float* p, int64_t n) {
  const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  return _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(static_cast<Mask>(first_lanes(n) & 0xFF), p));
}

GPT_INLINE int32_t reduce_add(IVec v) {
  return _mm512_reduce_add_epi32(v);
}
GPT_INLINE int32_t reduce_max(IVec v) {
  return _mm512_reduce_max_epi32(v);
}
// Stores every lane as a byte. Values must be in -128 to 127.
GPT_INLINE void store_i8(void* p, IVec v) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
}
GPT_INLINE Mask less_equal_u(IVec a, IVec b) {
  return _mm512_cmple_epu32_mask(a, b);
}
GPT_INLINE IVec select(Mask m, IVec yes, IVec no) {
  return _mm512_mask_blend_epi32(m, no, yes);
}
// Computes the upper and lower half of the 64-bit products of the lanes of a and b. All lanes of b must be
// equal.
GPT_INLINE void multiply_wide(IVec a, IVec b, IVec* high, IVec* low) {
  const __m512i even = _mm512_mul_epu32(a, b);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
  *high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  *low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}

// Transposes a matrix of kLanes rows of one vector each.
GPT_INLINE void transpose(Vec (&r)[16]) {
  Vec t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  const auto low = [](Vec a, Vec b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  const auto high = [](Vec a, Vec b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  // After this loop, r[4g + j] holds column j of every group of four lanes, for rows 4g to 4g+3.
  for (int g = 0; g < 16; g += 4) {
    r[g] = low(t[g], t[g + 2]);
    r[g + 1] = high(t[g], t[g + 2]);
    r[g + 2] = low(t[g + 1], t[g + 3]);
    r[g + 3] = high(t[g + 1], t[g + 3]);
  }
  // Transpose the 4 x 4 matrix of 4-lane groups.
  for (int j = 0; j < 4; ++j) {
    const Vec a = _mm512_shuffle_f32x4(r[j], r[j + 4], 0x44);
    const Vec b = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], 0x44);
    const Vec c = _mm512_shuffle_f32x4(r[j], r[j + 4], 0xee);
    const Vec d = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], 0xee);
    t[j] = _mm512_shuffle_f32x4(a, b, 0x88);
    t[j + 4] = _mm512_shuffle_f32x4(a, b, 0xdd);
    t[j + 8] = _mm512_shuffle_f32x4(c, d, 0x88);
    t[j + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
  }
  for (int i = 0; i < 16; ++i)
    r[i] = t[i];
}

GPT_INLINE VecD low_d(Vec v) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(v));
}
GPT_INLINE VecD high_d(Vec v) {
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
}
// Converts two halves of doubles to a Vec.
GPT_INLINE Vec narrow(VecD low, VecD high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
GPT_INLINE double reduce_add(VecD v) {
  const __m256d a = _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
  const __m128d b = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
