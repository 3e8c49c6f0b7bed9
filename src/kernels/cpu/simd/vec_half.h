#pragma once

// Converts Vec from and to 16-bit floats and int8. This header is only included by vec.h. Values are rounded
// to nearest, ties to even, when they are stored; NaN stays NaN. Masked accesses do not touch memory outside
// of their lanes.

#include "kernels/cpu/simd/stored.h"
#include "tensor/dtype.h"

namespace gpt::GPT_SIMD_NAMESPACE {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

#if defined(GPT_SIMD_AVX512)

using Halves = __m256i;  // kLanes 16-bit values

GPT_INLINE Halves load_halves(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
GPT_INLINE Halves load_halves(const void* p, Mask m) {
  return _mm256_maskz_loadu_epi16(m, p);
}
GPT_INLINE void store_halves(void* p, Halves h) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), h);
}
GPT_INLINE void store_halves(void* p, Halves h, Mask m) {
  _mm256_mask_storeu_epi16(p, m, h);
}
GPT_INLINE Vec widen_bf16(Halves h) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
GPT_INLINE Vec widen_f16(Halves h) {
  return _mm512_cvtph_ps(h);
}
// Uses integer arithmetic, which keeps subnormal values. The AVX512_BF16 instruction would flush subnormal
// values to zero.
GPT_INLINE Halves narrow_bf16_keep_subnormals(Vec v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i round = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i nan = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i sum = _mm512_mask_mov_epi32(_mm512_add_epi32(bits, round), is_nan, nan);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
}
GPT_INLINE Halves narrow_f16(Vec v) {
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// Rounds to integers, ties to even; |v| must be at most 127.
GPT_INLINE void store(int8_t* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}
GPT_INLINE void store(int8_t* p, Vec v, Mask m) {
  _mm_mask_storeu_epi8(p, m, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}

#else

using Halves = __m128i;

GPT_INLINE Halves load_halves(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
GPT_INLINE int active(Mask m) {
  return __builtin_popcount(static_cast<uint32_t>(_mm256_movemask_ps(m.bits)));
}
GPT_INLINE Halves load_halves(const void* p, Mask m) {
  Halves h = _mm_setzero_si128();
  __builtin_memcpy(&h, p, 2 * static_cast<size_t>(active(m)));
  return h;
}
GPT_INLINE void store_halves(void* p, Halves h) {
  _mm_storeu_si128(static_cast<__m128i*>(p), h);
}
GPT_INLINE void store_halves(void* p, Halves h, Mask m) {
  __builtin_memcpy(p, &h, 2 * static_cast<size_t>(active(m)));
}
GPT_INLINE Vec widen_bf16(Halves h) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
GPT_INLINE Vec widen_f16(Halves h) {
  return _mm256_cvtph_ps(h);
}
GPT_INLINE Halves narrow_bf16_keep_subnormals(Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(sum, nan, is_nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}
GPT_INLINE Halves narrow_f16(Vec v) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// Rounds to integers, ties to even; |v| must be at most 127.
GPT_INLINE __m128i narrow_i8(Vec v) {
  const __m256i whole = _mm256_cvtps_epi32(v);
  const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  return _mm_packs_epi16(halves, halves);
}
GPT_INLINE void store(int8_t* p, Vec v) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), narrow_i8(v));
}
GPT_INLINE void store(int8_t* p, Vec v, Mask m) {
  const __m128i bytes = narrow_i8(v);
  __builtin_memcpy(p, &bytes, static_cast<size_t>(active(m)));
}

#endif

GPT_INLINE Halves narrow_bf16(Vec v) {
#if defined(GPT_SIMD_BF16)
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
#else
  return narrow_bf16_keep_subnormals(v);
#endif
}
GPT_INLINE Vec load(const Bf16* p) {
  return widen_bf16(load_halves(p));
}
GPT_INLINE Vec load(const F16* p) {
  return widen_f16(load_halves(p));
}
GPT_INLINE Vec load(const Bf16* p, Mask m) {
  return widen_bf16(load_halves(p, m));
}
GPT_INLINE Vec load(const F16* p, Mask m) {
  return widen_f16(load_halves(p, m));
}
GPT_INLINE void store(Bf16* p, Vec v) {
  store_halves(p, narrow_bf16(v));
}
GPT_INLINE void store(F16* p, Vec v) {
  store_halves(p, narrow_f16(v));
}
GPT_INLINE void store(Bf16* p, Vec v, Mask m) {
  store_halves(p, narrow_bf16(v), m);
}
GPT_INLINE void store(F16* p, Vec v, Mask m) {
  store_halves(p, narrow_f16(v), m);
}

// Convert int8 values to float without a scale.
#if defined(GPT_SIMD_AVX512)
GPT_INLINE Vec widen_i8(__m128i x) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x));
}
GPT_INLINE Vec load(const int8_t* p) {
  return widen_i8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
GPT_INLINE Vec load_n(const int8_t* p, int64_t n) {
  return widen_i8(_mm_maskz_loadu_epi8(first_lanes(n), p));
}
#else
GPT_INLINE Vec load(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
GPT_INLINE Vec load_n(const int8_t* p, int64_t n) {
  int8_t all[kLanes] = {};
  __builtin_memcpy(all, p, static_cast<size_t>(n));
  return load(all);
}
#endif

// Loads the first n elements at p, padded with zeros. Does not access other memory.
template <class E>
GPT_INLINE Vec load_n(const E* p, int64_t n) {
  return load(p, first_lanes(n));
}
template <class E>
GPT_INLINE void store_n(E* p, Vec v, int64_t n) {
  store(p, v, first_lanes(n));
}

// Calls body with a null pointer to the element type of `type`.
template <class Body>
GPT_INLINE void for_type(DType type, Body body) {
  if (type == DType::bf16) {
    body(static_cast<Bf16*>(nullptr));
  } else if (type == DType::f16) {
    body(static_cast<F16*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}

// Calls f with p cast to the element type of `type`, for dtypes of activations.
template <class F>
GPT_INLINE void with_float_type(Stored type, const void* p, F f) {
  if (type == Stored::bf16) return f(static_cast<const Bf16*>(p));
  if (type == Stored::f16) return f(static_cast<const F16*>(p));
  f(static_cast<const float*>(p));
}
template <class F>
GPT_INLINE void with_float_type(Stored type, void* p, F f) {
  if (type == Stored::bf16) return f(static_cast<Bf16*>(p));
  if (type == Stored::f16) return f(static_cast<F16*>(p));
  f(static_cast<float*>(p));
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
