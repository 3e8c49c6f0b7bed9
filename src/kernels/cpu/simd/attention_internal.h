#pragma once

// This header contains code that all attention sources share: declarations of their kernels, and access to
// rows of any dtype.
#include "kernels/cpu/simd/attention_kernels.h"
#include "kernels/cpu/simd/vec.h"

namespace gpt::GPT_SIMD_NAMESPACE {

GPT_INLINE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
GPT_INLINE int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// Returns n rounded down to whole vectors.
GPT_INLINE int64_t full_lanes(int64_t n) {
  return n / kLanes * kLanes;
}

void pack_a(const PackRows& src, void* dst, int64_t ld);
void pack_b_transposed(const PackRows& src, void* dst);
void pack_b(const PackRows& src, void* dst, int64_t dp);
void dots(const PackRows& a, const PackRows& b, float* dst);
void unpack(const UnpackRows& rows);
void dropout_factors(uint64_t key, uint64_t first, int64_t n, uint32_t threshold, float scale, float* dst);
void decode_tile(const AttentionForwardTile& tile, const PackRows& k, const PackRows& v, float* keys);
void backward_tile(const AttentionBackwardTile& tile);

// Tag type for the elements of Q4_0 rows (kernels/quant.h).
struct Q4 {};
inline constexpr int64_t kQ4Block = 32, kQ4BlockBytes = 18;  // fp16 d and 16 bytes of values

// Calls f with p cast to the element type of `type`. i8 and q4_0 are only supported for reading.
template <class F>
GPT_INLINE void with_type(Stored type, const void* p, F f) {
  if (type == Stored::i8) return f(static_cast<const int8_t*>(p));
  if (type == Stored::q4_0) return f(static_cast<const Q4*>(p));
  with_float_type(type, p, f);
}
template <class F>
GPT_INLINE void with_type(Stored type, void* p, F f) {
  with_float_type(type, p, f);
}

// Computes dst = src * factor for n elements. May read `src` past n elements, up to the end of the last whole
// vector.
template <class E>
GPT_INLINE void store_row(E* dst, const float* src, Vec factor, int64_t n) {
  const int64_t full = full_lanes(n);
  for (int64_t c = 0; c < full; c += kLanes)
    store(dst + c, load(src + c) * factor);
  if (full < n) store_n(dst + full, load(src + full) * factor, n - full);
}

// A pointer-like type for the elements of a quantized row. The expressions `row + c` and `load(row + c)` work
// as for a pointer.
struct Q4Row {
  const uint8_t* blocks = nullptr;  // null: no row
  int64_t column = 0;               // must be a multiple of kLanes to read
};
GPT_INLINE Q4Row operator+(Q4Row row, int64_t columns) {
  return {row.blocks, row.column + columns};
}
GPT_INLINE const uint8_t* block_of(Q4Row row) {
  return row.blocks + row.column / kQ4Block * kQ4BlockBytes;
}
GPT_INLINE float load_scale(const uint8_t* block) {
  uint16_t d;
  __builtin_memcpy(&d, block, sizeof d);
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(d)));
}
#if defined(GPT_SIMD_AVX512)
GPT_INLINE __m128i q4_bytes(const uint8_t* block) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 2));
}
// Returns a lookup table for q - 8, where q is the low four bits of a word. Lookups ignore all other bits of
// the word.
GPT_INLINE Vec q4_values() {
  return _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
}
GPT_INLINE Vec look_up(Vec values, __m512i words) {
  return _mm512_permutexvar_ps(words, values);
}
#endif
GPT_INLINE Vec load(Q4Row row) {
  const uint8_t* block = block_of(row);
  const int high = row.column % kQ4Block < kQ4Block / 2 ? 0 : 4;
#if defined(GPT_SIMD_AVX512)
  const __m512i q = _mm512_srli_epi32(_mm512_cvtepu8_epi32(q4_bytes(block)), static_cast<unsigned>(high));
  const Vec whole = look_up(q4_values(), q);
#else
  const uint8_t* first = block + 2 + row.column % (kQ4Block / 2);
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(first));
  const __m256i q =
      _mm256_and_si256(_mm256_srli_epi32(_mm256_cvtepu8_epi32(bytes), high), _mm256_set1_epi32(15));
  const Vec whole = _mm256_cvtepi32_ps(_mm256_sub_epi32(q, _mm256_set1_epi32(8)));
#endif
  return whole * set1(load_scale(block));
}
// Never called, because quantized rows consist of whole blocks.
GPT_INLINE Vec load_n(Q4Row row, int64_t) {
  return load(row);
}

// Returns the first element of a row that starts `elements` elements after `base`.
template <class E>
GPT_INLINE const E* row_at(const E*, const void* base, int64_t elements) {
  return static_cast<const E*>(base) + elements;
}
GPT_INLINE Q4Row row_at(const Q4*, const void* base, int64_t elements) {
  return {static_cast<const uint8_t*>(base) + elements / kQ4Block * kQ4BlockBytes};
}
template <class E>
GPT_INLINE auto row_at(const void* base, int64_t elements) {
  return row_at(static_cast<const E*>(nullptr), base, elements);
}
template <class E>
using Row = decltype(row_at<E>(nullptr, 0));

GPT_INLINE const void* address(const void* row) {
  return row;
}
GPT_INLINE const void* address(Q4Row row) {
  return row.blocks == nullptr ? nullptr : block_of(row);
}

template <class E>
GPT_INLINE Row<E> source_row(const PackRows& src, int64_t i) {
  if (src.rows == nullptr) return row_at<E>(src.base, i * src.ld);
  return src.rows[i] < 0 ? Row<E>{} : row_at<E>(src.base, src.rows[i] * src.ld);
}

// Number of elements in a cache line, rounded down.
template <class E>
inline constexpr int64_t kLine = 64 / sizeof(E);
template <>
inline constexpr int64_t kLine<Q4> = 64 / kQ4BlockBytes* kQ4Block;

// Prefetches columns [from, to) of a row that will be read after row i. The hardware prefetcher does not
// handle the rows of a head, because they are short and far apart.
template <class E>
GPT_INLINE void prefetch(const PackRows& src, int64_t i, int64_t from, int64_t to) {
  constexpr int64_t kAhead = 16;
  int64_t elements = 0;  // offset of the row from src.base, in elements
  if (src.next != nullptr && src.next[i] >= 0) {
    elements = src.next[i] * src.ld + src.next_column;
  } else if (src.rows == nullptr && i + kAhead < src.n) {
    elements = (i + kAhead) * src.ld;
  } else {
    return;
  }
  for (int64_t c = from; c < to; c += kLine<E>)
    __builtin_prefetch(address(row_at<E>(src.base, elements) + c), 0, 2);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
