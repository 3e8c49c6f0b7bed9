#pragma once

// GCC 12 takes the deliberately undefined pass-through operands of its own AVX-512 intrinsics for a mistake.
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

// A thin layer over one instruction set: Vec is 8 floats (AVX2 + FMA) or 16 (AVX-512), and + - * / work
// on it. Included only by the sources of cpu/simd, which are compiled once per instruction set.
//
// Everything here is internal to the translation unit and always inlined, and nothing of the standard
// library's templates is used: a weak symbol compiled for AVX-512 could otherwise be the copy that the
// linker keeps for every caller, and crash older CPUs.
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
// Before a loop over registers.
#ifdef __clang__
#define GPT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GPT_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(GPT_SIMD_AVX512)
#include "kernels/cpu/simd/vec_avx512.h"
#else
#include "kernels/cpu/simd/vec_avx2.h"
#endif
#include "kernels/cpu/simd/vec_half.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// Stands for a mask of all lanes, so that one loop body serves whole vectors and the tail.
struct AllLanes {};
template <class E>
GPT_INLINE Vec load(const E* p, AllLanes) {
  return load(p);
}
template <class E>
GPT_INLINE void store(E* p, Vec v, AllLanes) {
  store(p, v);
}

// Runs body(i, lanes) over [0, n) in steps of kLanes; lanes is AllLanes, or a Mask for the tail.
template <class Body>
GPT_INLINE void for_vectors(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    body(i, AllLanes{});
  if (i < n) body(i, first_lanes(n - i));
}

// The same for sums: body(k, i, lanes) with k in 0..3 taking turns, so that four accumulators hide the
// latency of an addition. The turns depend on n alone.
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
