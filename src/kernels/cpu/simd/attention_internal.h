#pragma once

// What the sources of attention share: their own list of kernels, and rows of any type.
#include "kernels/cpu/simd/attention_kernels.h"
#include "kernels/cpu/simd/vec.h"

namespace gpt::GPT_SIMD_NAMESPACE {

GPT_INLINE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
GPT_INLINE int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// n without its tail: the floats that fill whole vectors.
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
    store(dst + c, load(src + c) * factor);
  if (full < n) store_n(dst + full, load(src + full) * factor, n - full);
}

template <class E>
GPT_INLINE const E* source_row(const PackRows& src, int64_t i) {
  const E* base = static_cast<const E*>(src.base);
  if (src.rows == nullptr) return base + i * src.ld;
  return src.rows[i] < 0 ? nullptr : base + src.rows[i] * src.ld;
}

template <class E>
inline constexpr int64_t kLine = 64 / sizeof(E);

// Rows of a head are short and far apart, which the hardware prefetcher does not handle: prefetches columns
// [from, to) of what is needed some rows after row i.
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
