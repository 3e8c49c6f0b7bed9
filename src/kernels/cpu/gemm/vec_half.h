#pragma once

#include "kernels/cpu/simd/vec.h"
#include "tensor/dtype.h"

// Vec from and to elements as they are stored. Internal to the units compiled once per instruction set.

namespace gpt::GPT_SIMD_NAMESPACE {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

#if defined(GPT_SIMD_AVX512)
using HalfVec = __m256i;  // kLanes 16-bit numbers
GPT_INLINE IVec bits_of(Vec v) {
  return _mm512_castps_si512(v);
}
GPT_INLINE Vec as_floats(IVec v) {
  return _mm512_castsi512_ps(v);
}
GPT_INLINE HalfVec load_half(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
GPT_INLINE HalfVec load_half(const void* p, int64_t n) {
  return _mm256_maskz_loadu_epi16(first_lanes(n), p);
}
GPT_INLINE void store_half(void* p, HalfVec v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}
GPT_INLINE void store_half(void* p, HalfVec v, int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), v);
}
GPT_INLINE Vec widen_bf16(HalfVec v) {
  return as_floats(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}
GPT_INLINE Vec widen_f16(HalfVec v) {
  return _mm512_cvtph_ps(v);
}
GPT_INLINE HalfVec narrow_f16(Vec v) {
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
GPT_INLINE HalfVec narrow_bf16(Vec v) {
#if defined(GPT_SIMD_BF16)
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
#else
  const IVec u = bits_of(v);
  const IVec odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), set1_i(1));
  const IVec rounded = _mm512_add_epi32(u, _mm512_add_epi32(odd, set1_i(0x7fff)));
  const IVec quiet = _mm512_or_si512(u, set1_i(0x400000));
  const Mask nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(select(nan, quiet, rounded), 16));
#endif
}
#else
using HalfVec = __m128i;
GPT_INLINE IVec bits_of(Vec v) {
  return _mm256_castps_si256(v);
}
GPT_INLINE Vec as_floats(IVec v) {
  return _mm256_castsi256_ps(v);
}
GPT_INLINE HalfVec load_half(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
GPT_INLINE HalfVec load_half(const void* p, int64_t n) {
  uint16_t part[8] = {};
  __builtin_memcpy(part, p, static_cast<size_t>(n) * sizeof *part);
  return load_half(part);
}
GPT_INLINE void store_half(void* p, HalfVec v) {
  _mm_storeu_si128(static_cast<__m128i*>(p), v);
}
GPT_INLINE void store_half(void* p, HalfVec v, int64_t n) {
  uint16_t part[8];
  store_half(part, v);
  __builtin_memcpy(p, part, static_cast<size_t>(n) * sizeof *part);
}
GPT_INLINE Vec widen_bf16(HalfVec v) {
  return as_floats(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}
GPT_INLINE Vec widen_f16(HalfVec v) {
  return _mm256_cvtph_ps(v);
}
GPT_INLINE HalfVec narrow_f16(Vec v) {
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
GPT_INLINE HalfVec narrow_bf16(Vec v) {
  const IVec u = bits_of(v);
  const IVec odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), set1_i(1));
  const IVec rounded = _mm256_add_epi32(u, _mm256_add_epi32(odd, set1_i(0x7fff)));
  const IVec quiet = _mm256_or_si256(u, set1_i(0x400000));
  const IVec nan = bits_of(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const IVec high = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}
#endif

// kLanes elements from p, or the first n of them and zeros.
GPT_INLINE Vec load(const Bf16* p) {
  return widen_bf16(load_half(p));
}
GPT_INLINE Vec load(const F16* p) {
  return widen_f16(load_half(p));
}
GPT_INLINE Vec load_n(const float* p, int64_t n) {
  return load(p, first_lanes(n));
}
GPT_INLINE Vec load_n(const Bf16* p, int64_t n) {
  return widen_bf16(load_half(p, n));
}
GPT_INLINE Vec load_n(const F16* p, int64_t n) {
  return widen_f16(load_half(p, n));
}

GPT_INLINE void store(Bf16* p, Vec v) {
  store_half(p, narrow_bf16(v));
}
GPT_INLINE void store(F16* p, Vec v) {
  store_half(p, narrow_f16(v));
}
GPT_INLINE void store_n(float* p, Vec v, int64_t n) {
  store(p, v, first_lanes(n));
}
GPT_INLINE void store_n(Bf16* p, Vec v, int64_t n) {
  store_half(p, narrow_bf16(v), n);
}
GPT_INLINE void store_n(F16* p, Vec v, int64_t n) {
  store_half(p, narrow_f16(v), n);
}

// Calls body with a null pointer to the element type that `type` names.
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

}  // namespace gpt::GPT_SIMD_NAMESPACE
