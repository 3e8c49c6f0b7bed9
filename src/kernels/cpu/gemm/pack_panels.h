#pragma once

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/cpu/simd/vec.h"
#include "kernels/quant.h"

// Packs micro-panels of words (kernels.h shows the layout) and converts rows between dtypes. This header is
// only included by sources that are compiled once for each instruction set. There are two ways to pack a
// panel:
//
//   source contiguous along k                        source contiguous along the panel's columns
//     four columns x kLanes words are loaded,          k_pack rows x kLanes columns are loaded,
//     transposed in registers in 4 x 4 words,          interleaved to words if k_pack is 2,
//     and stored four columns at a time                and stored kLanes columns at a time
//
// The word type `Words` provides three members. kPack is the number of elements in a word. from_row() returns
// kLanes consecutive words along k from elements p[0], p[1], ..., or from the first n elements padded with
// zeros. from_columns() returns one word for each of kLanes columns, from row `low` and, if kPack is 2, from
// row `high` (null: zeros).

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

using gemm::ConvertArgs;
using gemm::PackPanelArgs;
using gemm::PackRowsArgs;

GPT_INLINE void store_words(uint32_t* p, IVec v) {
  store(reinterpret_cast<float*>(p), as_floats(v));
}
// Stores the first n <= kLanes lanes, where n is a multiple of four. Avoids masked stores, which take several
// times as long.
GPT_INLINE void store_words(uint32_t* p, IVec v, int64_t n) {
#if defined(GPT_SIMD_AVX512)
  if (n == 16) return store_words(p, v);
  if (n >= 8) _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(v));
  const __m128i rest = n >= 8 ? _mm512_extracti32x4_epi32(v, 2) : _mm512_castsi512_si128(v);
#else
  if (n == 8) return store_words(p, v);
  const __m128i rest = _mm256_castsi256_si128(v);
#endif
  if (n % 8 != 0) _mm_storeu_si128(reinterpret_cast<__m128i*>(p + n / 8 * 8), rest);
}
GPT_INLINE IVec zero_words() {
  return bits_of(zero());
}

struct Exact {
  GPT_INLINE Vec round(Vec v) { return v; }
};
struct ToBf16 {
  GPT_INLINE Vec round(Vec v) { return widen_bf16(narrow_bf16(v)); }
};
struct ToF16 {
  GPT_INLINE Vec round(Vec v) { return widen_f16(narrow_f16(v)); }
};

template <class Rounding>
struct Fp32Words {
  static constexpr int64_t kPack = 1;
  template <class T>
  GPT_INLINE IVec from_row(const T* p) {
    return bits_of(Rounding::round(load(p)));
  }
  template <class T>
  GPT_INLINE IVec from_row(const T* p, int64_t n) {
    return bits_of(Rounding::round(load_n(p, n)));
  }
  template <class T>
  GPT_INLINE IVec from_columns(const T* row, const T*) {
    return from_row(row);
  }
  template <class T>
  GPT_INLINE IVec from_columns(const T* row, const T*, int64_t n) {
    return from_row(row, n);
  }
};

// Stores the first n groups of four lanes; consecutive groups are stored `step` words apart.
GPT_INLINE void store_groups(uint32_t* p, int64_t step, IVec v, int64_t n) {
  const auto put = [&](int64_t i, __m128i group) {
    if (i < n) _mm_storeu_si128(reinterpret_cast<__m128i*>(p + i * step), group);
  };
#if defined(GPT_SIMD_AVX512)
  put(0, _mm512_castsi512_si128(v));
  put(1, _mm512_extracti32x4_epi32(v, 1));
  put(2, _mm512_extracti32x4_epi32(v, 2));
  put(3, _mm512_extracti32x4_epi32(v, 3));
#else
  put(0, _mm256_castsi256_si128(v));
  put(1, _mm256_extracti128_si256(v, 1));
#endif
}

// Packs columns [row, row + 4) of the panel, kLanes words of each at a time. In the source, these columns are
// stored as rows.
template <class Words, class T>
void transpose_four_rows(const PackPanelArgs& p, int64_t row) {
  constexpr int64_t kAhead = 8;  // prefetch distance in rows: the hardware prefetcher stops at the end of a
                                 // row
  const auto* src = static_cast<const T*>(p.src) + row * p.ld;
  uint32_t* dst = p.dst + row;
  const int64_t rows = p.count - row;
  constexpr int64_t kStep = kLanes * Words::kPack;
  int64_t l = 0;
  for (; l + kStep <= p.k; l += kStep, src += kStep, dst += kLanes * p.width) {
    for (int64_t r = 0; r < 4; ++r)
      __builtin_prefetch(src + (kAhead + r) * p.ld, 0, 2);
    IVec v[4] = {Words::from_row(src), rows > 1 ? Words::from_row(src + p.ld) : zero_words(),
                 rows > 2 ? Words::from_row(src + 2 * p.ld) : zero_words(),
                 rows > 3 ? Words::from_row(src + 3 * p.ld) : zero_words()};
    transpose4(v);
    for (int64_t j = 0; j < 4; ++j)
      store_groups(dst + j * p.width, 4 * p.width, v[j], kLanes / 4);
  }
  for (; l < p.k; l += kStep, src += kStep, dst += kLanes * p.width) {
    const int64_t n = p.k - l;
    IVec v[4] = {Words::from_row(src, n), rows > 1 ? Words::from_row(src + p.ld, n) : zero_words(),
                 rows > 2 ? Words::from_row(src + 2 * p.ld, n) : zero_words(),
                 rows > 3 ? Words::from_row(src + 3 * p.ld, n) : zero_words()};
    transpose4(v);
    const int64_t words = (n + Words::kPack - 1) / Words::kPack;
    for (int64_t j = 0; j < 4; ++j)  // group i of v[j] is word 4 i + j of the four columns
      store_groups(dst + j * p.width, 4 * p.width, v[j], (words - j + 3) / 4);
  }
}

template <class Words, class T>
void pack_panel_transposing(const PackPanelArgs& p) {
  int64_t row = 0;
  for (; row < p.count; row += 4)
    transpose_four_rows<Words, T>(p, row);
  for (; row < p.width; row += 4) {
    for (int64_t l = 0; l < p.k; l += Words::kPack)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p.dst + l / Words::kPack * p.width + row),
                       _mm_setzero_si128());
  }
}

// Packs up to kLanes columns of a panel from a source that is contiguous along the panel's columns. If
// kWhole, packs kLanes columns; otherwise packs `count` columns and pads them with zeros to `width`.
template <class Words, class T, bool kWhole, bool kSums>
void pack_panel_columns(const PackPanelArgs& p, int64_t first) {
  constexpr int64_t kAhead = 64;  // prefetch distance in rows, which may be in different memory pages
  const auto* src = static_cast<const T*>(p.src) + first;
  uint32_t* dst = p.dst + first;
  const int64_t count = p.count - first < 0 ? 0 : p.count - first < kLanes ? p.count - first : kLanes;
  const int64_t width = p.width - first < kLanes ? p.width - first : kLanes;
  Vec sum = zero();
  for (int64_t l = 0; l < p.k; l += Words::kPack, src += Words::kPack * p.ld, dst += p.width) {
    const T* high = Words::kPack == 2 && l + 1 < p.k ? src + p.ld : nullptr;
    __builtin_prefetch(src + kAhead * p.ld, 0, 2);
    if (Words::kPack == 2) __builtin_prefetch(src + (kAhead + 1) * p.ld, 0, 2);
    if (kSums) {
      sum = sum + load_n(src, count);
      if (high) sum = sum + load_n(high, count);
    }
    if (kWhole) {
      store_words(dst, Words::from_columns(src, high));
    } else {
      store_words(dst, Words::from_columns(src, high, count), width);
    }
  }
  if (kSums) store_n(p.sums + first, load_n(p.sums + first, count) + sum, count);
}

template <class Words, class T>
void pack_panel_columns(const PackPanelArgs& p) {
  for (int64_t first = 0; first < p.width; first += kLanes) {
    if (p.count - first >= kLanes) {
      p.sums ? pack_panel_columns<Words, T, true, true>(p, first)
             : pack_panel_columns<Words, T, true, false>(p, first);
    } else {
      p.sums ? pack_panel_columns<Words, T, false, true>(p, first)
             : pack_panel_columns<Words, T, false, false>(p, first);
    }
  }
}

template <class Words>
void pack_panel_as(const PackPanelArgs& p) {
  for_type(p.type, [&]<class T>(T*) {
    p.k_contiguous ? pack_panel_transposing<Words, T>(p) : pack_panel_columns<Words, T>(p);
  });
}

template <class Words, class T>
void pack_rows_of(const PackRowsArgs& p) {
  constexpr int64_t kStep = kLanes * Words::kPack;
  for (int64_t r = 0; r < p.rows; ++r) {
    const auto* src = static_cast<const T*>(p.src) + r * p.ld;
    uint32_t* dst = p.dst + r * p.dst_ld;
    int64_t l = 0;
    for (; l + kStep <= p.k; l += kStep, dst += kLanes)
      store_words(dst, Words::from_row(src + l));
    if (const int64_t n = p.k - l; n > 0)
      store_n(reinterpret_cast<float*>(dst), as_floats(Words::from_row(src + l, n)),
              (n + Words::kPack - 1) / Words::kPack);
  }
}

template <class Words>
void pack_rows_as(const PackRowsArgs& p) {
  for_type(p.type, [&]<class T>(T*) { pack_rows_of<Words, T>(p); });
}

template <class To, class From>
void convert_rows(ConvertArgs p) {  // passed by value, so that stores to dst cannot alias it
  for (int64_t r = 0; r < p.rows; ++r) {
    const auto* src = static_cast<const From*>(p.src) + r * p.src_ld;
    auto* dst = static_cast<To*>(p.dst) + r * p.dst_ld;
    int64_t i = 0;
    for (; i + kLanes <= p.cols; i += kLanes) {
      const Vec v = load(src + i);
      store(dst + i, p.accumulate ? load(dst + i) + v : v);
    }
    if (const int64_t n = p.cols - i; n > 0) {
      const Vec v = load_n(src + i, n);
      store_n(dst + i, p.accumulate ? load_n(dst + i, n) + v : v, n);
    }
  }
}

GPT_INLINE void convert(const ConvertArgs& p) {
  for_type(p.dst_type, [&]<class To>(To*) {
    for_type(p.src_type, [&]<class From>(From*) { convert_rows<To, From>(p); });
  });
}

GPT_INLINE void dequantize(const UnpackedBlock& u, float* dst) {
  for (int64_t half = 0; half < 2; ++half) {
    const Vec scale = set1(u.d * static_cast<float>(u.sub[half]));
    for (int64_t j = half * 16; j < half * 16 + 16; j += kLanes)
      store(dst + j, scale * load(u.q + j) + set1(u.m));
  }
}

}  // namespace
}  // namespace gpt::GPT_SIMD_NAMESPACE
