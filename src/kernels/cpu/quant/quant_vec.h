#pragma once

// What the tiles of quant_tile.inc are made of, for one instruction set: kLanes fp32 or int32 numbers, one
// per output, and the product of 4 weights with 4 activations in every lane. Included only by sources that
// are compiled once per instruction set (see simd/README.md).

// g++ 12 takes the deliberately undefined operand of its own intrinsics for a mistake (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstdint>

#ifdef __clang__
#define GPT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GPT_UNROLL _Pragma("GCC unroll 16")
#endif

namespace gpt::quant {
namespace {

#if defined(GPT_SIMD_AVX512)

using Vec = __m512;
using IVec = __m512i;
constexpr int kLanes = 16;

inline Vec zero() {
  return _mm512_setzero_ps();
}
inline Vec splat(float x) {
  return _mm512_set1_ps(x);
}
inline IVec splat(int32_t x) {
  return _mm512_set1_epi32(x);
}
inline Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline Vec load_half(const void* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
inline Vec load_bf16(const void* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
inline void store(void* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
inline void store_half(void* p, Vec v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_bf16(void* p, Vec v) {
  const __m512i u = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i nearest = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
  const __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_blend_epi32(nan, nearest, quiet);
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
inline Vec add(Vec a, Vec b) {
  return _mm512_add_ps(a, b);
}
inline Vec mul(Vec a, Vec b) {
  return _mm512_mul_ps(a, b);
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Vec to_float(IVec v) {
  return _mm512_cvtepi32_ps(v);
}
inline IVec to_nearest(Vec v) {
  return _mm512_cvtps_epi32(v);
}
inline IVec load_bytes(const uint8_t* p) {
  return _mm512_loadu_si512(p);
}
inline IVec bit_and(IVec a, IVec b) {
  return _mm512_and_si512(a, b);
}
inline IVec splat16(int16_t x) {
  return _mm512_set1_epi16(x);
}
template <int n>
inline IVec shift_right16(IVec v) {
  return _mm512_srli_epi16(v, n);
}
inline IVec max_int(IVec a, IVec b) {
  return _mm512_max_epi32(a, b);
}
inline IVec add_int(IVec a, IVec b) {
  return _mm512_add_epi32(a, b);
}
inline IVec magnitude_bits(Vec v) {
  return _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
}
inline int32_t reduce_max(IVec v) {
  return _mm512_reduce_max_epi32(v);
}
inline int32_t reduce_sum(IVec v) {
  return _mm512_reduce_add_epi32(v);
}

#else

using Vec = __m256;
using IVec = __m256i;
constexpr int kLanes = 8;

inline Vec zero() {
  return _mm256_setzero_ps();
}
inline Vec splat(float x) {
  return _mm256_set1_ps(x);
}
inline IVec splat(int32_t x) {
  return _mm256_set1_epi32(x);
}
inline Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline Vec load_half(const void* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
inline Vec load_bf16(const void* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
inline void store(void* p, Vec v) {
  _mm256_storeu_ps(static_cast<float*>(p), v);
}
inline void store_half(void* p, Vec v) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_bf16(void* p, Vec v) {
  const __m256i u = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i rounded = _mm256_srli_epi32(_mm256_blendv_epi8(nearest, quiet, nan), 16);
  const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded, rounded), 0x08);
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
inline Vec add(Vec a, Vec b) {
  return _mm256_add_ps(a, b);
}
inline Vec mul(Vec a, Vec b) {
  return _mm256_mul_ps(a, b);
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Vec to_float(IVec v) {
  return _mm256_cvtepi32_ps(v);
}
inline IVec to_nearest(Vec v) {
  return _mm256_cvtps_epi32(v);
}
inline IVec load_bytes(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline IVec bit_and(IVec a, IVec b) {
  return _mm256_and_si256(a, b);
}
inline IVec splat16(int16_t x) {
  return _mm256_set1_epi16(x);
}
template <int n>
inline IVec shift_right16(IVec v) {
  return _mm256_srli_epi16(v, n);
}
inline IVec max_int(IVec a, IVec b) {
  return _mm256_max_epi32(a, b);
}
inline IVec add_int(IVec a, IVec b) {
  return _mm256_add_epi32(a, b);
}
inline IVec magnitude_bits(Vec v) {
  return _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff));
}
inline int32_t reduce_max(IVec v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}
inline int32_t reduce_sum(IVec v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

#endif

// Loaded by value so that no alignment is assumed.
template <class T>
inline T load_as(const void* p) {
  T x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}

// 4 weights (unsigned bytes) per lane, and 4 activations that every lane multiplies them with.
#if defined(GPT_SIMD_BF16)

// AVX512_VNNI multiplies and adds four bytes at once; activations are kept as bytes.
struct Weights {
  IVec bytes;
};
struct Activations {
  IVec bytes;
};
constexpr int kActGroup = 4;  // bytes of 4 activations

inline Weights weights8(const uint8_t* p) {
  return {load_bytes(p)};
}
// Both halves of the bytes at p.
inline void weights4(const uint8_t* p, Weights& low, Weights& high) {
  const IVec bytes = load_bytes(p), mask = _mm512_set1_epi8(15);
  low = {bit_and(bytes, mask)};
  high = {bit_and(shift_right16<4>(bytes), mask)};
}
inline Activations activations(const uint8_t* p) {
  return {splat(load_as<int32_t>(p))};
}
inline IVec dot4(IVec sum, Weights w, Activations x) {
  return _mm512_dpbusd_epi32(sum, w.bytes, x.bytes);
}
inline void store_activations(uint8_t* p, IVec q) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(q));
}

#else

// Without it bytes are widened to 16 bits, the even ones and the odd ones of a group apart; activations are
// kept as 16 bits in that order.
struct Weights {
  IVec even, odd;
};
struct Activations {
  IVec even, odd;
};
constexpr int kActGroup = 8;

inline Weights weights8(const uint8_t* p) {
  const IVec bytes = load_bytes(p);
  return {bit_and(bytes, splat16(0xff)), shift_right16<8>(bytes)};
}
inline void weights4(const uint8_t* p, Weights& low, Weights& high) {
  const IVec bytes = load_bytes(p), mask = splat16(15);
  low = {bit_and(bytes, mask), bit_and(shift_right16<8>(bytes), mask)};
  high = {bit_and(shift_right16<4>(bytes), mask), shift_right16<12>(bytes)};
}
inline Activations activations(const uint8_t* p) {
  return {splat(load_as<int32_t>(p)), splat(load_as<int32_t>(p + 4))};
}
#if defined(GPT_SIMD_AVX512)
inline IVec dot4(IVec sum, Weights w, Activations x) {
  sum = _mm512_add_epi32(sum, _mm512_madd_epi16(w.even, x.even));
  return _mm512_add_epi32(sum, _mm512_madd_epi16(w.odd, x.odd));
}
inline void store_activations(uint8_t* p, IVec q) {
  const IVec even_first = _mm512_shuffle_epi32(q, static_cast<_MM_PERM_ENUM>(0xd8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(even_first));
}
#else
inline IVec dot4(IVec sum, Weights w, Activations x) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(w.even, x.even));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(w.odd, x.odd));
}
inline void store_activations(uint8_t* p, IVec q) {
  const IVec even_first = _mm256_shuffle_epi32(q, 0xd8);
  const IVec packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(even_first, even_first), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
#endif

#endif

}  // namespace
}  // namespace gpt::quant
