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
#if defined(GPT_SIMD_AVX512)
#define GPT_SIMD_NAMESPACE simd_avx512
#elif defined(GPT_SIMD_AVX2)
#define GPT_SIMD_NAMESPACE simd_avx2
#else
#error "vec.h is for the sources of cpu/simd, compiled with GPT_SIMD_AVX2 or GPT_SIMD_AVX512"
#endif
#define GPT_INLINE static inline __attribute__((always_inline))

#if defined(GPT_SIMD_AVX512)
#include "kernels/cpu/simd/vec_avx512.h"
#else
#include "kernels/cpu/simd/vec_avx2.h"
#endif
#include "kernels/cpu/simd/vec_math.h"
