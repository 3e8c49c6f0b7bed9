#pragma once

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/cpu/gemm/vec_half.h"

// Packing of strips. Internal to the units compiled once per instruction set.
//
// A unit type has kPerUnit, along() - kLanes units of one row of the operand that lie behind each other along
// k, from its first element on, or from the first n elements and zeros - and across(), the units of kLanes
// rows side by side, from their elements of `low` and, with two elements in a unit, of `high`.

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

using gemm::ConvertArgs;
using gemm::PackArgs;
using gemm::UnitRowsArgs;

GPT_INLINE void store_units(uint32_t* p, IVec v) {
  store(reinterpret_cast<float*>(p), as_floats(v));
}
// The first n, at most kLanes; n is a multiple of four. (Stores under a mask take several times as long.)
GPT_INLINE void store_units(uint32_t* p, IVec v, int64_t n) {
#if defined(GPT_SIMD_AVX512)
  if (n == 16) return store_units(p, v);
  if (n >= 8) _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(v));
  const __m128i rest = n >= 8 ? _mm512_extracti32x4_epi32(v, 2) : _mm512_castsi512_si128(v);
#else
  if (n == 8) return store_units(p, v);
  const __m128i rest = _mm256_castsi256_si128(v);
#endif
  if (n % 8 != 0) _mm_storeu_si128(reinterpret_cast<__m128i*>(p + n / 8 * 8), rest);
}
GPT_INLINE IVec no_units() {
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
struct Fp32Units {
  static constexpr int64_t kPerUnit = 1;
  template <class T>
  GPT_INLINE IVec along(const T* p) {
    return bits_of(Rounding::round(load(p)));
  }
  template <class T>
  GPT_INLINE IVec along(const T* p, int64_t n) {
    return bits_of(Rounding::round(load_n(p, n)));
  }
  template <class T>
  GPT_INLINE IVec across(const T* row, const T*) {
    return along(row);
  }
  template <class T>
  GPT_INLINE IVec across(const T* row, const T*, int64_t n) {
    return along(row, n);
  }
};

// Groups of four lanes, one behind each other `step` units apart; the first n groups.
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

// Four rows by kLanes units at a time, transposed in groups of four.
template <class Units, class T>
void pack_four_rows(const PackArgs& p, int64_t row) {
  constexpr int64_t kAhead = 8;  // rows: the processor's own prefetching ends with a row
  const auto* src = static_cast<const T*>(p.src) + row * p.ld;
  uint32_t* dst = p.dst + row;
  const int64_t rows = p.count - row;
  constexpr int64_t kStep = kLanes * Units::kPerUnit;
  int64_t l = 0;
  for (; l + kStep <= p.k; l += kStep, src += kStep, dst += kLanes * p.width) {
    for (int64_t r = 0; r < 4; ++r)
      __builtin_prefetch(src + (kAhead + r) * p.ld, 0, 2);
    IVec v[4] = {Units::along(src), rows > 1 ? Units::along(src + p.ld) : no_units(),
                 rows > 2 ? Units::along(src + 2 * p.ld) : no_units(),
                 rows > 3 ? Units::along(src + 3 * p.ld) : no_units()};
    transpose4(v);
    for (int64_t j = 0; j < 4; ++j)
      store_groups(dst + j * p.width, 4 * p.width, v[j], kLanes / 4);
  }
  for (; l < p.k; l += kStep, src += kStep, dst += kLanes * p.width) {
    const int64_t n = p.k - l;
    IVec v[4] = {Units::along(src, n), rows > 1 ? Units::along(src + p.ld, n) : no_units(),
                 rows > 2 ? Units::along(src + 2 * p.ld, n) : no_units(),
                 rows > 3 ? Units::along(src + 3 * p.ld, n) : no_units()};
    transpose4(v);
    const int64_t units = (n + Units::kPerUnit - 1) / Units::kPerUnit;
    for (int64_t j = 0; j < 4; ++j)  // lane group i of v[j] belongs to unit 4 i + j
      store_groups(dst + j * p.width, 4 * p.width, v[j], (units - j + 3) / 4);
  }
}

template <class Units, class T>
void pack_rows(const PackArgs& p) {
  int64_t row = 0;
  for (; row < p.count; row += 4)
    pack_four_rows<Units, T>(p, row);
  for (; row < p.width; row += 4) {
    for (int64_t l = 0; l < p.k; l += Units::kPerUnit)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p.dst + l / Units::kPerUnit * p.width + row),
                       _mm_setzero_si128());
  }
}

// Up to kLanes columns of a strip whose rows along k are ld apart: all of them, or `count` of `width`.
template <class Units, class T, bool kWhole, bool kSums>
void pack_columns(const PackArgs& p, int64_t first) {
  constexpr int64_t kAhead = 64;  // rows that are fetched for the next call: they may be pages apart
  const auto* src = static_cast<const T*>(p.src) + first;
  uint32_t* dst = p.dst + first;
  const int64_t count = p.count - first < 0 ? 0 : p.count - first < kLanes ? p.count - first : kLanes;
  const int64_t width = p.width - first < kLanes ? p.width - first : kLanes;
  Vec sum = zero();
  for (int64_t l = 0; l < p.k; l += Units::kPerUnit, src += Units::kPerUnit * p.ld, dst += p.width) {
    const T* high = Units::kPerUnit == 2 && l + 1 < p.k ? src + p.ld : nullptr;
    __builtin_prefetch(src + kAhead * p.ld, 0, 2);
    if (Units::kPerUnit == 2) __builtin_prefetch(src + (kAhead + 1) * p.ld, 0, 2);
    if (kSums) {
      sum = sum + load_n(src, count);
      if (high) sum = sum + load_n(high, count);
    }
    if (kWhole) {
      store_units(dst, Units::across(src, high));
    } else {
      store_units(dst, Units::across(src, high, count), width);
    }
  }
  if (kSums) store_n(p.sums + first, load_n(p.sums + first, count) + sum, count);
}

template <class Units, class T>
void pack_columns(const PackArgs& p) {
  for (int64_t first = 0; first < p.width; first += kLanes) {
    if (p.count - first >= kLanes) {
      p.sums ? pack_columns<Units, T, true, true>(p, first) : pack_columns<Units, T, true, false>(p, first);
    } else {
      p.sums ? pack_columns<Units, T, false, true>(p, first) : pack_columns<Units, T, false, false>(p, first);
    }
  }
}

template <class Units>
void pack_units(const PackArgs& p) {
  for_type(p.type, [&]<class T>(T*) { p.k_contiguous ? pack_rows<Units, T>(p) : pack_columns<Units, T>(p); });
}

template <class Units, class T>
void unit_rows_of(const UnitRowsArgs& p) {
  constexpr int64_t kStep = kLanes * Units::kPerUnit;
  for (int64_t r = 0; r < p.rows; ++r) {
    const auto* src = static_cast<const T*>(p.src) + r * p.ld;
    uint32_t* dst = p.dst + r * p.dst_ld;
    int64_t l = 0;
    for (; l + kStep <= p.k; l += kStep, dst += kLanes)
      store_units(dst, Units::along(src + l));
    if (const int64_t n = p.k - l; n > 0)
      store_n(reinterpret_cast<float*>(dst), as_floats(Units::along(src + l, n)),
              (n + Units::kPerUnit - 1) / Units::kPerUnit);
  }
}

template <class Units>
void make_unit_rows(const UnitRowsArgs& p) {
  for_type(p.type, [&]<class T>(T*) { unit_rows_of<Units, T>(p); });
}

template <class To, class From>
void convert_rows(const ConvertArgs& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const auto* src = static_cast<const From*>(p.src) + r * p.src_ld;
    auto* dst = static_cast<To*>(p.dst) + r * p.dst_ld;
    int64_t i = 0;
    for (; i + kLanes <= p.cols; i += kLanes) {
      const Vec v = load(src + i);
      store(dst + i, p.add ? load(dst + i) + v : v);
    }
    if (const int64_t n = p.cols - i; n > 0) {
      const Vec v = load_n(src + i, n);
      store_n(dst + i, p.add ? load_n(dst + i, n) + v : v, n);
    }
  }
}

GPT_INLINE void convert_any(const ConvertArgs& p) {
  for_type(p.dst_type, [&]<class To>(To*) {
    for_type(p.src_type, [&]<class From>(From*) { convert_rows<To, From>(p); });
  });
}

}  // namespace
}  // namespace gpt::GPT_SIMD_NAMESPACE
