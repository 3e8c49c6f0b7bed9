// Packing of rows into tiles, and the dropout mask of attention weights.
#include "kernels/cpu/simd/attention_elements.h"
#include "kernels/cpu/simd/attention_internal.h"
#include "kernels/cpu/simd/philox.h"

namespace gpt::GPT_SIMD_NAMESPACE {

template <class E>
GPT_INLINE const E* source_row(const PackRows& src, int64_t i) {
  const E* base = static_cast<const E*>(src.base);
  if (src.rows == nullptr) return base + i * src.ld;
  return src.rows[i] < 0 ? nullptr : base + src.rows[i] * src.ld;
}

// A line of a row that will be wanted soon.
template <class E>
inline constexpr int64_t kLine = 64 / sizeof(E);
template <class E>
GPT_INLINE void prefetch(const PackRows& src, int64_t i, int64_t from, int64_t to) {
  if (src.next == nullptr || src.next[i] < 0) return;
  const E* row = static_cast<const E*>(src.base) + src.next[i] * src.ld;
  for (int64_t c = from; c < to; c += kLine<E>)
    __builtin_prefetch(row + c, 0, 2);
}

template <class E>
GPT_INLINE void pack_as(const PackRows& src, float scale, float* dst, int64_t ld_dst) {
  const int64_t full = full_lanes(src.cols);
  const Vec factor = set1(scale);
  for (int64_t i = 0; i < src.n; ++i, dst += ld_dst) {
    prefetch<E>(src, i, 0, src.cols);
    const E* row = source_row<E>(src, i);
    if (row == nullptr) {
      for (int64_t c = 0; c < ld_dst; ++c)
        dst[c] = 0;
      continue;
    }
    for (int64_t c = 0; c < full; c += kLanes)
      store(dst + c, load_as_float(row + c) * factor);
    if (full == src.cols) continue;
    const Vec last = load_as_float(row + full, src.cols - full) * factor;
    if (ld_dst >= full + kLanes) {
      store(dst + full, last);
    } else {
      store(dst + full, last, first_lanes(src.cols - full));
    }
  }
}

void pack(const PackRows& src, float scale, float* dst, int64_t ld_dst) {
  with_type(src.type, src.base,
            [&]<class E>(const E*) GPT_ALWAYS_INLINE { pack_as<E>(src, scale, dst, ld_dst); });
}

#if defined(GPT_SIMD_AVX512)
GPT_INLINE void transpose(Vec (&r)[16]) {
  Vec t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  const auto low = [](Vec a, Vec b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  const auto high = [](Vec a, Vec b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  // r[4g + j]: column j of every 4-lane group, of rows 4g .. 4g+3.
  for (int g = 0; g < 16; g += 4) {
    r[g] = low(t[g], t[g + 2]);
    r[g + 1] = high(t[g], t[g + 2]);
    r[g + 2] = low(t[g + 1], t[g + 3]);
    r[g + 3] = high(t[g + 1], t[g + 3]);
  }
  // Transpose the 4 x 4 matrix of 4-lane groups.
  for (int j = 0; j < 4; ++j) {
    const Vec a = _mm512_shuffle_f32x4(r[j], r[j + 4], 0x44);
    const Vec b = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], 0x44);
    const Vec c = _mm512_shuffle_f32x4(r[j], r[j + 4], 0xee);
    const Vec d = _mm512_shuffle_f32x4(r[j + 8], r[j + 12], 0xee);
    t[j] = _mm512_shuffle_f32x4(a, b, 0x88);
    t[j + 4] = _mm512_shuffle_f32x4(a, b, 0xdd);
    t[j + 8] = _mm512_shuffle_f32x4(c, d, 0x88);
    t[j + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
  }
  for (int i = 0; i < 16; ++i)
    r[i] = t[i];
}
#else
GPT_INLINE void transpose(Vec (&r)[8]) {
  Vec t[8];
  for (int g = 0; g < 8; g += 4) {
    const Vec a = _mm256_unpacklo_ps(r[g], r[g + 1]);
    const Vec b = _mm256_unpackhi_ps(r[g], r[g + 1]);
    const Vec c = _mm256_unpacklo_ps(r[g + 2], r[g + 3]);
    const Vec d = _mm256_unpackhi_ps(r[g + 2], r[g + 3]);
    t[g] = _mm256_shuffle_ps(a, c, 0x44);
    t[g + 1] = _mm256_shuffle_ps(a, c, 0xee);
    t[g + 2] = _mm256_shuffle_ps(b, d, 0x44);
    t[g + 3] = _mm256_shuffle_ps(b, d, 0xee);
  }
  for (int j = 0; j < 4; ++j) {
    r[j] = _mm256_permute2f128_ps(t[j], t[j + 4], 0x20);
    r[j + 4] = _mm256_permute2f128_ps(t[j], t[j + 4], 0x31);
  }
}
#endif

template <class E>
GPT_INLINE void pack_transposed_as(const PackRows& src, float* dst) {
  const int64_t full = full_lanes(src.cols);
  for (int64_t first = 0; first < kKeyTile; first += kLanes) {
    const E* rows[kLanes];
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
        block[i] = rows[i] == nullptr ? zero()
                   : whole            ? load_as_float(rows[i] + c)
                                      : load_as_float(rows[i] + c, n);
      }
      transpose(block);
      for (int64_t i = 0; i < n; ++i)
        store(dst + (c + i) * kKeyTile + first, block[i]);
    }
  }
}

void pack_transposed(const PackRows& src, float* dst) {
  with_type(src.type, src.base,
            [&]<class E>(const E*) GPT_ALWAYS_INLINE { pack_transposed_as<E>(src, dst); });
}

template <class E>
GPT_INLINE float dot_as(const E* a, const E* b, int64_t n) {
  const int64_t full = full_lanes(n);
  Vec sum = zero();
  for (int64_t i = 0; i < full; i += kLanes)
    sum = fma(load_as_float(a + i), load_as_float(b + i), sum);
  if (full < n) sum = fma(load_as_float(a + full, n - full), load_as_float(b + full, n - full), sum);
  return reduce_add(sum);
}

float dot(Stored type, const void* a, const void* b, int64_t n) {
  float sum = 0;
  with_type(type, a,
            [&]<class E>(const E* x) GPT_ALWAYS_INLINE { sum = dot_as(x, static_cast<const E*>(b), n); });
  return sum;
}

void unpack(const UnpackRows& r) {
  const Vec factor = set1(r.scale);
  with_type(r.type, r.base, [&]<class E>(E* base) GPT_ALWAYS_INLINE {
    for (int64_t i = 0; i < r.n; ++i) {
      E* row = base + (r.rows == nullptr ? i : r.rows[i]) * r.ld;
      const float* from = r.src + i * r.ld_src;
      for (int64_t c = 0; c < r.cols; c += kLanes) {
        const int64_t n = r.cols - c < kLanes ? r.cols - c : kLanes;
        store_from_float(row + c, load(from + c) * factor, n);
      }
    }
  });
}

void dropout_factors(uint64_t key, uint64_t first, int64_t n, uint32_t threshold, float scale, float* dst) {
  constexpr int64_t kGroup = 4 * kLanes;
  const IVec last_dropped = set1_i(threshold - 1);
  float factors[kGroup];
  auto skip = static_cast<int64_t>(first % 4);  // words of the first counter that belong to earlier elements
  for (uint64_t counter = first / 4; n > 0; counter += kLanes, skip = 0) {
    IVec words[4];
    philox_words(counter, key, words);
    for (int j = 0; j < 4; ++j) {
      store(factors + j * kLanes, select(less_equal_u(words[j], last_dropped), zero(), set1(scale)));
    }
    const int64_t take = n < kGroup - skip ? n : kGroup - skip;
    for (int64_t i = 0; i < take; ++i)
      dst[i] = factors[skip + i];
    dst += take;
    n -= take;
  }
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
