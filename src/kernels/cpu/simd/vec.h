#pragma once

// GCC 12 warns about the deliberately undefined pass-through operands of its own AVX-512 intrinsics.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstddef>
#include <cstdint>

// A thin layer over the instruction sets. Vec holds 8 floats (AVX2 + FMA) or 16 (AVX-512) and supports + - *
// /. This header is only included by sources that are compiled once for each instruction set.
//
// All functions have internal linkage and are always inlined. Templates of the standard library are not
// allowed: the linker could keep the AVX-512 copy of a weak symbol for all callers, and the program would
// then crash on older CPUs.
#if defined(GPT_SIMD_AMX)
#define GPT_SIMD_NAMESPACE simd_amx
#elif defined(GPT_SIMD_BF16)
#define GPT_SIMD_NAMESPACE simd_avx512bf16
#elif defined(GPT_SIMD_AVX512)
#define GPT_SIMD_NAMESPACE simd_avx512
#elif defined(GPT_SIMD_AVX2)
#define GPT_SIMD_NAMESPACE simd_avx2
#else
#error "vec.h is for the sources of cpu/simd, compiled with GPT_SIMD_AVX2 or GPT_SIMD_AVX512"
#endif
#define GPT_INLINE static inline __attribute__((always_inline))
#define GPT_ALWAYS_INLINE __attribute__((always_inline))  // for lambdas
// GPT_UNROLL is placed before a loop over registers, which must be unrolled completely.
#ifdef __clang__
#define GPT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GPT_UNROLL _Pragma("GCC unroll 16")
#endif

// GPT_MM(name) is the intrinsic of the instruction set: _mm512_NAME or _mm256_NAME. GPT_MM_SI(name) also
// appends the suffix of integer types.
#if defined(GPT_SIMD_AVX512)
#define GPT_MM(name) _mm512_##name
#define GPT_MM_SI(name) _mm512_##name##_si512
#else
#define GPT_MM(name) _mm256_##name
#define GPT_MM_SI(name) _mm256_##name##_si256
#endif

namespace gpt::GPT_SIMD_NAMESPACE {

#if defined(GPT_SIMD_AVX512)
using Vec = __m512;
using VecD = __m512d;  // kLanes / 2 doubles
using IVec = __m512i;  // kLanes 32-bit integers
#else
using Vec = __m256;
using VecD = __m256d;
using IVec = __m256i;
#endif
inline constexpr int kLanes = sizeof(Vec) / sizeof(float);

GPT_INLINE Vec zero() {
  return GPT_MM(setzero_ps)();
}
GPT_INLINE Vec set1(float x) {
  return GPT_MM(set1_ps)(x);
}
GPT_INLINE Vec load(const float* p) {
  return GPT_MM(loadu_ps)(p);
}
GPT_INLINE void store(float* p, Vec v) {
  GPT_MM(storeu_ps)(p, v);
}
// Returns a b + c.
GPT_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return GPT_MM(fmadd_ps)(a, b, c);
}
// Returns c - a b.
GPT_INLINE Vec fnma(Vec a, Vec b, Vec c) {
  return GPT_MM(fnmadd_ps)(a, b, c);
}
// max() and min() return b if either operand is NaN.
GPT_INLINE Vec max(Vec a, Vec b) {
  return GPT_MM(max_ps)(a, b);
}
GPT_INLINE Vec min(Vec a, Vec b) {
  return GPT_MM(min_ps)(a, b);
}
GPT_INLINE Vec sqrt(Vec a) {
  return GPT_MM(sqrt_ps)(a);
}
// Swaps lanes (0,1), (2,3), ..., for rotations of pairs.
GPT_INLINE Vec swap_pairs(Vec v) {
  return GPT_MM(permute_ps)(v, 0xB1);
}

GPT_INLINE IVec bits_of(Vec v) {
  return reinterpret_cast<IVec>(v);
}
GPT_INLINE Vec as_floats(IVec v) {
  return reinterpret_cast<Vec>(v);
}
GPT_INLINE IVec load_i(const void* p) {
  return GPT_MM_SI(loadu)(static_cast<const IVec*>(p));
}
GPT_INLINE void store_i(void* p, IVec v) {
  GPT_MM_SI(storeu)(static_cast<IVec*>(p), v);
}
GPT_INLINE Vec to_float(IVec v) {
  return GPT_MM(cvtepi32_ps)(v);
}
// Rounds to nearest, ties to even.
GPT_INLINE IVec to_int(Vec v) {
  return GPT_MM(cvtps_epi32)(v);
}
GPT_INLINE IVec set1_i(int32_t x) {
  return GPT_MM(set1_epi32)(x);
}
GPT_INLINE IVec set1_i(uint32_t x) {
  return set1_i(static_cast<int32_t>(x));
}
GPT_INLINE IVec set1_i16(int16_t x) {
  return GPT_MM(set1_epi16)(x);
}
GPT_INLINE IVec set1_i8(int x) {
  return GPT_MM(set1_epi8)(static_cast<char>(x));
}
GPT_INLINE IVec add_i(IVec a, IVec b) {
  return GPT_MM(add_epi32)(a, b);
}
GPT_INLINE IVec sub_i(IVec a, IVec b) {
  return GPT_MM(sub_epi32)(a, b);
}
GPT_INLINE IVec mul_i(IVec a, IVec b) {
  return GPT_MM(mullo_epi32)(a, b);
}
GPT_INLINE IVec max_i(IVec a, IVec b) {
  return GPT_MM(max_epi32)(a, b);
}
GPT_INLINE IVec and_i(IVec a, IVec b) {
  return GPT_MM_SI(and)(a, b);
}
GPT_INLINE IVec or_i(IVec a, IVec b) {
  return GPT_MM_SI(or)(a, b);
}
GPT_INLINE IVec xor_i(IVec a, IVec b) {
  return GPT_MM_SI(xor)(a, b);
}
template <int n>
GPT_INLINE IVec shift_left_i(IVec v) {
  return GPT_MM(slli_epi32)(v, n);
}
template <int n>
GPT_INLINE IVec shift_right_i(IVec v) {
  return GPT_MM(srli_epi32)(v, n);
}
// Shifts 16-bit lanes.
template <int n>
GPT_INLINE IVec shift_right_i16(IVec v) {
  return GPT_MM(srli_epi16)(v, n);
}
// Multiplies 16-bit lanes and adds the products of adjacent pairs.
GPT_INLINE IVec madd_i16(IVec a, IVec b) {
  return GPT_MM(madd_epi16)(a, b);
}
// For every group of four lanes, unpack_low32() returns lanes (a0, b0, a1, b1) and unpack_high32() returns
// lanes (a2, b2, a3, b3). unpack_low64() and unpack_high64() do the same for 64-bit lanes.
GPT_INLINE IVec unpack_low32(IVec a, IVec b) {
  return GPT_MM(unpacklo_epi32)(a, b);
}
GPT_INLINE IVec unpack_low64(IVec a, IVec b) {
  return GPT_MM(unpacklo_epi64)(a, b);
}
GPT_INLINE IVec unpack_high32(IVec a, IVec b) {
  return GPT_MM(unpackhi_epi32)(a, b);
}
GPT_INLINE IVec unpack_high64(IVec a, IVec b) {
  return GPT_MM(unpackhi_epi64)(a, b);
}
// Shuffles the 16 bytes of every group of four lanes. `order` holds the source index of each byte; the index
// 0x80 yields a zero byte.
GPT_INLINE IVec shuffle_bytes(IVec v, IVec order) {
  return GPT_MM(shuffle_epi8)(v, order);
}
// Transposes the 4x4 matrix in every group of four lanes of v[0..3].
GPT_INLINE void transpose4(IVec (&v)[4]) {
  const IVec a = unpack_low32(v[0], v[1]), b = unpack_high32(v[0], v[1]);
  const IVec c = unpack_low32(v[2], v[3]), d = unpack_high32(v[2], v[3]);
  v[0] = unpack_low64(a, c);
  v[1] = unpack_high64(a, c);
  v[2] = unpack_low64(b, d);
  v[3] = unpack_high64(b, d);
}

GPT_INLINE VecD zero_d() {
  return GPT_MM(setzero_pd)();
}
GPT_INLINE VecD set1_d(double x) {
  return GPT_MM(set1_pd)(x);
}
GPT_INLINE VecD fma(VecD a, VecD b, VecD c) {
  return GPT_MM(fmadd_pd)(a, b, c);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE

// These headers contain the functions that differ between instruction sets.
#if defined(GPT_SIMD_AVX512)
#include "kernels/cpu/simd/vec_avx512.h"
#else
#include "kernels/cpu/simd/vec_avx2.h"
#endif
#include "kernels/cpu/simd/vec_half.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// Sets the accumulators of a micro-kernel to zero.
template <int R, int V>
GPT_INLINE void clear(Vec (&acc)[R][V]) {
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      acc[r][v] = zero();
  }
}

// A mask of all lanes, so that the same loop body handles whole vectors and the tail.
struct AllLanes {};
template <class E>
GPT_INLINE Vec load(const E* p, AllLanes) {
  return load(p);
}
template <class E>
GPT_INLINE void store(E* p, Vec v, AllLanes) {
  store(p, v);
}

// Calls body(i, lanes) over [0, n) in steps of kLanes. lanes is AllLanes, or a Mask for the tail.
template <class Body>
GPT_INLINE void for_vectors(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    body(i, AllLanes{});
  if (i < n) body(i, first_lanes(n - i));
}

// Variant of for_vectors() for sums. Calls body(k, i, lanes) with k cycling through 0..3, so that four
// accumulators hide the latency of an addition. The sequence of calls depends only on n.
template <class Body>
GPT_INLINE void for_vectors_by_4(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    body(0, i, AllLanes{});
    body(1, i + kLanes, AllLanes{});
    body(2, i + 2 * kLanes, AllLanes{});
    body(3, i + 3 * kLanes, AllLanes{});
  }
  for (; i + kLanes <= n; i += kLanes)
    body(0, i, AllLanes{});
  if (i < n) body(1, i, first_lanes(n - i));
}
GPT_INLINE float reduce_add(const Vec (&v)[4]) {
  return reduce_add((v[0] + v[1]) + (v[2] + v[3]));
}

}  // namespace gpt::GPT_SIMD_NAMESPACE

#include "kernels/cpu/simd/vec_math.h"
