#pragma once

// Vectors of floats from and to what a row may hold. Included by attention_pack.cc and the decoding kernels.
#include "kernels/cpu/simd/attention_internal.h"

namespace gpt::GPT_SIMD_NAMESPACE {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

GPT_INLINE Vec load_as_float(const float* p) {
  return load(p);
}

#if defined(GPT_SIMD_AVX512)

GPT_INLINE Vec widen_bf16(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
GPT_INLINE Vec widen_i8(__m128i x) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x));
}
GPT_INLINE Vec load_as_float(const Bf16* p) {
  return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
GPT_INLINE Vec load_as_float(const F16* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
GPT_INLINE Vec load_as_float(const int8_t* p) {
  return widen_i8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// The first n < kLanes elements, then zeros; no other memory is touched.
GPT_INLINE Vec load_as_float(const float* p, int64_t n) {
  return load(p, first_lanes(n));
}
GPT_INLINE Vec load_as_float(const Bf16* p, int64_t n) {
  return widen_bf16(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
GPT_INLINE Vec load_as_float(const F16* p, int64_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
GPT_INLINE Vec load_as_float(const int8_t* p, int64_t n) {
  return widen_i8(_mm_maskz_loadu_epi8(first_lanes(n), p));
}

// Rounded to nearest, ties to even; NaN stays NaN.
GPT_INLINE __m256i narrow_bf16(Vec v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i round = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
  const __m512i nan = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i sum = _mm512_mask_mov_epi32(_mm512_add_epi32(bits, round), is_nan, nan);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
}
GPT_INLINE __m256i narrow_f16(Vec v) {
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
GPT_INLINE void store_from_float(float* p, Vec v) {
  store(p, v);
}
GPT_INLINE void store_from_float(Bf16* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bf16(v));
}
GPT_INLINE void store_from_float(F16* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_f16(v));
}
// The first n < kLanes elements alone.
GPT_INLINE void store_from_float(float* p, Vec v, int64_t n) {
  store(p, v, first_lanes(n));
}
GPT_INLINE void store_from_float(Bf16* p, Vec v, int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow_bf16(v));
}
GPT_INLINE void store_from_float(F16* p, Vec v, int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), narrow_f16(v));
}

#else

GPT_INLINE Vec load_as_float(const Bf16* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
GPT_INLINE Vec load_as_float(const F16* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
GPT_INLINE Vec load_as_float(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

// The first n < kLanes elements, then zeros; no other memory is touched.
GPT_INLINE Vec load_as_float(const float* p, int64_t n) {
  return load(p, first_lanes(n));
}
template <class E>
GPT_INLINE Vec load_as_float(const E* p, int64_t n) {
  E all[kLanes] = {};
  for (int64_t i = 0; i < n; ++i)
    all[i] = p[i];
  return load_as_float(all);
}

// Rounded to nearest, ties to even; NaN stays NaN.
GPT_INLINE __m128i narrow_bf16(Vec v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(sum, nan, is_nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}
GPT_INLINE __m128i narrow_f16(Vec v) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
GPT_INLINE void store_halves(uint16_t* p, __m128i halves) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), halves);
}
GPT_INLINE void store_halves(uint16_t* p, __m128i halves, int64_t n) {
  uint16_t all[kLanes];
  store_halves(all, halves);
  for (int64_t i = 0; i < n; ++i)
    p[i] = all[i];
}
GPT_INLINE void store_from_float(float* p, Vec v) {
  store(p, v);
}
GPT_INLINE void store_from_float(Bf16* p, Vec v) {
  store_halves(&p->bits, narrow_bf16(v));
}
GPT_INLINE void store_from_float(F16* p, Vec v) {
  store_halves(&p->bits, narrow_f16(v));
}
// The first n < kLanes elements alone.
GPT_INLINE void store_from_float(float* p, Vec v, int64_t n) {
  store(p, v, first_lanes(n));
}
GPT_INLINE void store_from_float(Bf16* p, Vec v, int64_t n) {
  store_halves(&p->bits, narrow_bf16(v), n);
}
GPT_INLINE void store_from_float(F16* p, Vec v, int64_t n) {
  store_halves(&p->bits, narrow_f16(v), n);
}

#endif

// f(pointer of the type that `type` says); i8 only where rows are read.
template <class F>
GPT_INLINE void with_type(Stored type, const void* p, F f) {
  switch (type) {
    case Stored::f32:
      return f(static_cast<const float*>(p));
    case Stored::bf16:
      return f(static_cast<const Bf16*>(p));
    case Stored::f16:
      return f(static_cast<const F16*>(p));
    case Stored::i8:
      return f(static_cast<const int8_t*>(p));
  }
}
template <class F>
GPT_INLINE void with_type(Stored type, void* p, F f) {
  switch (type) {
    case Stored::bf16:
      return f(static_cast<Bf16*>(p));
    case Stored::f16:
      return f(static_cast<F16*>(p));
    default:
      return f(static_cast<float*>(p));
  }
}

// dst = src * factor, n elements; src may be read up to a whole vector.
template <class E>
GPT_INLINE void store_row(E* dst, const float* src, Vec factor, int64_t n) {
  const int64_t full = full_lanes(n);
  for (int64_t c = 0; c < full; c += kLanes)
    store_from_float(dst + c, load(src + c) * factor);
  if (full < n) store_from_float(dst + full, load(src + full) * factor, n - full);
}

template <class E>
GPT_INLINE const E* source_row(const PackRows& src, int64_t i) {
  const E* base = static_cast<const E*>(src.base);
  if (src.rows == nullptr) return base + i * src.ld;
  return src.rows[i] < 0 ? nullptr : base + src.rows[i] * src.ld;
}

template <class E>
inline constexpr int64_t kLine = 64 / sizeof(E);

// Rows of a head are short pieces far apart, which the hardware does not see coming: fetches columns
// [from, to) of what will be wanted when row i has been dealt with.
template <class E>
GPT_INLINE void prefetch(const PackRows& src, int64_t i, int64_t from, int64_t to) {
  constexpr int64_t kAhead = 16;
  const E* row = static_cast<const E*>(src.base);
  if (src.next != nullptr && src.next[i] >= 0) {
    row += src.next[i] * src.ld;
  } else if (src.rows == nullptr && i + kAhead < src.n) {
    row += (i + kAhead) * src.ld;
  } else {
    return;
  }
  for (int64_t c = from; c < to; c += kLine<E>)
    __builtin_prefetch(row + c, 0, 2);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
