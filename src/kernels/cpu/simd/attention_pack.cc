// Packing of rows into tiles, and the dropout mask of attention weights.
#include "kernels/cpu/simd/attention_internal.h"
#include "kernels/cpu/simd/philox.h"

namespace gpt::GPT_SIMD_NAMESPACE {

GPT_INLINE const float* source_row(const PackRows& src, int64_t i) {
  if (src.rows == nullptr) return src.base + i * src.ld;
  return src.rows[i] < 0 ? nullptr : src.base + src.rows[i] * src.ld;
}

GPT_INLINE void prefetch(const PackRows& src, int64_t i, int64_t from, int64_t to) {
  if (src.next == nullptr || src.next[i] < 0) return;
  const float* row = src.base + src.next[i] * src.ld;
  for (int64_t c = from; c < to; c += 16)
    __builtin_prefetch(row + c, 0, 2);
}

void pack(const PackRows& src, float scale, float* dst, int64_t ld_dst) {
  const int64_t full = full_lanes(src.cols);
  const Mask tail = first_lanes(src.cols - full);
  const Vec factor = set1(scale);
  for (int64_t i = 0; i < src.n; ++i, dst += ld_dst) {
    prefetch(src, i, 0, src.cols);
    const float* row = source_row(src, i);
    if (row == nullptr) {
      for (int64_t c = 0; c < ld_dst; ++c)
        dst[c] = 0;
      continue;
    }
    for (int64_t c = 0; c < full; c += kLanes)
      store(dst + c, load(row + c) * factor);
    if (full == src.cols) continue;
    const Vec last = load(row + full, tail) * factor;
    if (ld_dst >= full + kLanes) {
      store(dst + full, last);
    } else {
      store(dst + full, last, tail);
    }
  }
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

void pack_transposed(const PackRows& src, float* dst) {
  const int64_t full = full_lanes(src.cols);
  for (int64_t first = 0; first < kKeyTile; first += kLanes) {
    const float* rows[kLanes];
    for (int64_t i = 0; i < kLanes; ++i)
      rows[i] = source_row(src, first + i);
    for (int64_t c = 0; c < src.cols; c += kLanes) {
      const bool whole = c < full;
      const Mask tail = first_lanes(whole ? kLanes : src.cols - full);
      if (c % 16 == 0) {
        for (int64_t i = 0; i < kLanes; ++i)
          prefetch(src, first + i, c, c + 16);
      }
      Vec block[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        block[i] = rows[i] == nullptr ? zero() : whole ? load(rows[i] + c) : load(rows[i] + c, tail);
      }
      transpose(block);
      const int64_t n = whole ? kLanes : src.cols - full;
      for (int64_t i = 0; i < n; ++i)
        store(dst + (c + i) * kKeyTile + first, block[i]);
    }
  }
}

float dot(const float* a, const float* b, int64_t n) {
  const int64_t full = full_lanes(n);
  Vec sum = zero();
  for (int64_t i = 0; i < full; i += kLanes)
    sum = fma(load(a + i), load(b + i), sum);
  if (full < n) {
    const Mask tail = first_lanes(n - full);
    sum = fma(load(a + full, tail), load(b + full, tail), sum);
  }
  return reduce_add(sum);
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
