#pragma once

// Vectors of floats from and to what a row may hold. Included by attention_pack.cc and the decoding kernels.
#include "kernels/cpu/simd/attention_internal.h"

namespace gpt::GPT_SIMD_NAMESPACE {

template <class E>
GPT_INLINE Vec load_as_float(const E* p) {
  return load(p);
}
// The first n < kLanes elements, then zeros; no other memory is touched.
template <class E>
GPT_INLINE Vec load_as_float(const E* p, int64_t n) {
  return load(p, first_lanes(n));
}
template <class E>
GPT_INLINE void store_from_float(E* p, Vec v) {
  store(p, v);
}
// The first n < kLanes elements alone.
template <class E>
GPT_INLINE void store_from_float(E* p, Vec v, int64_t n) {
  store(p, v, first_lanes(n));
}

#if defined(GPT_SIMD_AVX512)

GPT_INLINE Vec widen_i8(__m128i x) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x));
}
GPT_INLINE Vec load_as_float(const int8_t* p) {
  return widen_i8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
GPT_INLINE Vec load_as_float(const int8_t* p, int64_t n) {
  return widen_i8(_mm_maskz_loadu_epi8(first_lanes(n), p));
}

#else

GPT_INLINE Vec load_as_float(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
GPT_INLINE Vec load_as_float(const int8_t* p, int64_t n) {
  int8_t all[kLanes] = {};
  __builtin_memcpy(all, p, static_cast<size_t>(n));
  return load_as_float(all);
}

#endif

// f(pointer of the type that `type` says); i8 only where rows are read.
template <class F>
GPT_INLINE void with_type(Stored type, const void* p, F f) {
  if (type == Stored::i8) return f(static_cast<const int8_t*>(p));
  with_float_type(type, p, f);
}
template <class F>
GPT_INLINE void with_type(Stored type, void* p, F f) {
  with_float_type(type, p, f);
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
    row += src.next[i] * src.ld + src.next_column;
  } else if (src.rows == nullptr && i + kAhead < src.n) {
    row += (i + kAhead) * src.ld;
  } else {
    return;
  }
  for (int64_t c = from; c < to; c += kLine<E>)
    __builtin_prefetch(row + c, 0, 2);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
