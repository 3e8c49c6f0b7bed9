#pragma once

#include "kernels/cpu/simd/vec.h"

// Packs and multiplies bf16 values. A 32-bit word holds two values that are adjacent along k, which is the
// format of AVX512_BF16 and AMX.

namespace gpt::GPT_SIMD_NAMESPACE {

// Returns c plus the products of the k-packs of a and b, in every lane.
GPT_INLINE Vec dot_pairs(__m512i a, __m512i b, Vec c) {
  return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
}

// Interleaves the 16 values in each half of the register to low_0 high_0 low_1 high_1 ...
GPT_INLINE __m512i interleave_halves(__m512i halves) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, halves);
}
// Converts two vectors to bf16, with `low` in the lower half of the register.
GPT_INLINE __m512i narrow_two(Vec low, Vec high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
// Converts two vectors to bf16 and returns the words (low_i, high_i).
GPT_INLINE __m512i interleave(Vec low, Vec high) {
  return interleave_halves(narrow_two(low, high));
}
GPT_INLINE void store_bf16(uint16_t* p, Vec v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(v));
}

static constexpr int64_t kBf16Lanes = 2 * kLanes;

// Returns elements [c, c + kBf16Lanes) of a row. Returns zeros for elements past the end of the row, or if
// the row is null.
GPT_INLINE __m512i load_row(const Bf16* row, int64_t c, int64_t cols) {
  if (row == nullptr) return _mm512_setzero_si512();
  if (c + kBf16Lanes <= cols) return _mm512_loadu_si512(row + c);
  const uint32_t mask = (uint32_t{1} << static_cast<uint32_t>(cols - c)) - 1;
  return _mm512_maskz_loadu_epi16(mask, row + c);
}

// Return the words (even_i, odd_i) of two rows, for the first and for the second half of the registers.
GPT_INLINE __m512i interleave_low(__m512i even, __m512i odd) {
  const __m512i order = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  return _mm512_permutex2var_epi16(even, order, odd);
}
GPT_INLINE __m512i interleave_high(__m512i even, __m512i odd) {
  const __m512i order = _mm512_set_epi16(63, 31, 62, 30, 61, 29, 60, 28, 59, 27, 58, 26, 57, 25, 56, 24, 55,
                                         23, 54, 22, 53, 21, 52, 20, 51, 19, 50, 18, 49, 17, 48, 16);
  return _mm512_permutex2var_epi16(even, order, odd);
}

GPT_INLINE const uint32_t* words(const void* p) {
  return static_cast<const uint32_t*>(p);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
