// Packs operands in fp32 (see attention_kernels.h), and computes the dropout mask of attention weights.
#include "kernels/cpu/simd/attention_internal.h"
#include "kernels/cpu/simd/philox.h"

namespace gpt::GPT_SIMD_NAMESPACE {

template <class E>
GPT_INLINE void pack_a_as(const PackRows& src, float* dst, int64_t ld) {
  const int64_t full = full_lanes(src.cols);
  for (int64_t i = 0; i < src.n; ++i, dst += ld) {
    prefetch<E>(src, i, 0, src.cols);
    const Row<E> row = source_row<E>(src, i);
    if (address(row) == nullptr) {
      for (int64_t c = 0; c < src.cols; c += kLanes)
        store(dst + c, zero());
      continue;
    }
    for (int64_t c = 0; c < full; c += kLanes)
      store(dst + c, load(row + c));
    if (full < src.cols) store(dst + full, load_n(row + full, src.cols - full));
  }
}

void pack_a(const PackRows& src, void* dst, int64_t ld) {
  with_type(src.type, src.base,
            [&]<class E>(const E*) GPT_ALWAYS_INLINE { pack_a_as<E>(src, static_cast<float*>(dst), ld); });
}

template <class E>
GPT_INLINE void pack_b_transposed_as(const PackRows& src, float* dst) {
  const int64_t full = full_lanes(src.cols);
  for (int64_t first = 0; first < kKeyTile; first += kLanes) {
    Row<E> rows[kLanes];
    for (int64_t i = 0; i < kLanes; ++i)
      rows[i] = source_row<E>(src, first + i);
    for (int64_t c = 0; c < src.cols; c += kLanes) {
      const bool whole = c < full;
      const int64_t n = whole ? kLanes : src.cols - full;
      if (c % kLine<E> == 0) {
        for (int64_t i = 0; i < kLanes; ++i)
          prefetch<E>(src, first + i, c, c + kLine<E>);
      }
      Vec block[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        block[i] = address(rows[i]) == nullptr ? zero() : whole ? load(rows[i] + c) : load_n(rows[i] + c, n);
      }
      transpose(block);
      for (int64_t i = 0; i < n; ++i)
        store(dst + (c + i) * kKeyTile + first, block[i]);
    }
  }
}

void pack_b_transposed(const PackRows& src, void* dst) {
  with_type(src.type, src.base, [&]<class E>(const E*) GPT_ALWAYS_INLINE {
    pack_b_transposed_as<E>(src, static_cast<float*>(dst));
  });
}

template <class Row>
GPT_INLINE float dot(Row a, Row b, int64_t n) {
  const int64_t full = full_lanes(n);
  Vec sum = zero();
  for (int64_t i = 0; i < full; i += kLanes)
    sum = fma(load(a + i), load(b + i), sum);
  if (full < n) sum = fma(load_n(a + full, n - full), load_n(b + full, n - full), sum);
  return reduce_add(sum);
}

void dots(const PackRows& a, const PackRows& b, float* dst) {
  with_type(a.type, a.base, [&]<class E>(const E*) GPT_ALWAYS_INLINE {
    for (int64_t i = 0; i < a.n; ++i) {
      prefetch<E>(a, i, 0, a.cols);
      prefetch<E>(b, i, 0, a.cols);
      dst[i] = dot(source_row<E>(a, i), source_row<E>(b, i), a.cols);
    }
  });
}

void unpack(const UnpackRows& r) {
  constexpr int64_t kAhead = 16;
  const Vec factor = set1(r.scale);
  with_type(r.type, r.base, [&]<class E>(E* base) GPT_ALWAYS_INLINE {
    for (int64_t i = 0; i < r.n; ++i) {
      E* row = base + (r.rows == nullptr ? i : r.rows[i]) * r.ld;
      if (i + kAhead < r.n) {
        E* later = base + (r.rows == nullptr ? i + kAhead : r.rows[i + kAhead]) * r.ld;
        for (int64_t c = 0; c < r.cols; c += kLine<E>)
          __builtin_prefetch(later + c, 1, 3);
      }
      store_row(row, r.src + i * r.ld_src, factor, r.cols);
    }
  });
}

void dropout_factors(uint64_t key, uint64_t first, int64_t n, uint32_t threshold, float scale, float* dst) {
  constexpr int64_t kGroup = 4 * kLanes;
  float factors[kGroup];
  auto skip = static_cast<int64_t>(first % 4);  // number of words of the first counter that belong to earlier
                                                // elements
  for (uint64_t counter = first / 4; n > 0; counter += kLanes, skip = 0) {
    philox_factors(counter, key, threshold - 1, scale, factors);
    const int64_t take = n < kGroup - skip ? n : kGroup - skip;
    for (int64_t i = 0; i < take; ++i)
      dst[i] = factors[skip + i];
    dst += take;
    n -= take;
  }
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
