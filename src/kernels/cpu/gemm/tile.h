#pragma once

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/cpu/gemm/vec_half.h"

// The register tile. Internal to the units compiled once per instruction set.

#ifdef __clang__
#define GPT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GPT_UNROLL _Pragma("GCC unroll 16")
#endif

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

using gemm::TileArgs;

// A multiply-add has a latency of 4 to 6 cycles and issues once (512 bits) or twice (256 bits) a cycle, so
// at least 8 sums must be under way; beyond that the tile should be as square as the register file allows,
// for the fewest loads per multiply-add. 12 x 2 sums + 2 of B leave 6 of 32 registers, 4 x 3 sums + 3 of B +
// 1 of A fill all 16.
#if defined(GPT_SIMD_AVX512)
constexpr int kRows = 12, kVecs = 2;
GPT_INLINE IVec splat_unit(const uint32_t* p) {
  int unit;
  __builtin_memcpy(&unit, p, sizeof unit);  // rows of 16-bit elements need not be aligned to units
  return _mm512_set1_epi32(unit);
}
#else
constexpr int kRows = 4, kVecs = 3;
GPT_INLINE IVec splat_unit(const uint32_t* p) {
  return bits_of(_mm256_broadcast_ss(reinterpret_cast<const float*>(p)));
}
#endif
constexpr int kWidth = kLanes * kVecs;

GPT_INLINE IVec load_units(const uint32_t* p) {
  return bits_of(load(reinterpret_cast<const float*>(p)));
}
template <class Half>
GPT_INLINE IVec load_units(const Half* p) {
  return bits_of(load(p));
}

// Adds what C holds, then the bias: one vector of a row.
template <class Lanes>
GPT_INLINE void finish_vector(const TileArgs& t, Vec sum, float* c, int64_t col, Lanes lanes) {
  if (t.add) sum = load(c + col, lanes) + sum;
  if (t.bias) sum = sum + load(t.bias + col, lanes);
  store(c + col, sum, lanes);
}

template <int V>
GPT_INLINE void finish_row(const TileArgs& t, const Vec* sum, float* c) {
  GPT_UNROLL
  for (int v = 0; v < V; ++v) {
    const int64_t left = t.cols - v * kLanes;
    if (left >= kLanes) {
      finish_vector(t, sum[v], c, v * kLanes, AllLanes{});
    } else if (left > 0) {
      finish_vector(t, sum[v], c, v * kLanes, first_lanes(left));
    }
  }
}

// Fetches memory that a product will need soon, line after line, of some rows in turn.
struct Walk {
  static constexpr int64_t kLine = 64 / sizeof(uint32_t);
  const uint32_t* at;
  int64_t row, rows, rows_left;

  explicit Walk(const TileArgs& t)
      : at(static_cast<const uint32_t*>(t.next)),
        row(t.next_row),
        rows(t.next_rows),
        rows_left(t.next_rows) {}
  template <bool kToWrite>
  GPT_ALWAYS_INLINE void fetch() {
    __builtin_prefetch(at, kToWrite, 2);
    at += row;
    if (--rows_left == 0) {
      at += kLine - rows * row;
      rows_left = rows;
    }
  }
};

// R rows, V vectors of columns; the strip holds T. Arithmetic::add_product(sum, x, w) multiplies units.
// With kAhead see TileArgs::next_b.
template <class Arithmetic, class T, int R, int V, bool kAhead = false>
void tile_of(const TileArgs& t) {
  Vec sum[R][V];
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    if (!kAhead) __builtin_prefetch(t.c + r * t.ldc, 1);
    if (!kAhead && V > 1) __builtin_prefetch(t.c + r * t.ldc + kLanes, 1);
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      sum[r][v] = zero();
  }
  // Three rows share a pointer, so that all addresses fit into registers.
  constexpr int kPointers = (R + 2) / 3;
  const uint32_t* a[kPointers];
  GPT_UNROLL
  for (int i = 0; i < kPointers; ++i)
    a[i] = static_cast<const uint32_t*>(t.a) + 3 * i * t.a_row;
  const T* b = static_cast<const T*>(t.b);
  Walk walk(t);
  [[maybe_unused]] const auto* next_b = static_cast<const uint32_t*>(t.next_b);
  const auto step = [&]() GPT_ALWAYS_INLINE {
    IVec w[V];
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      w[v] = load_units(b + v * kLanes);
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const IVec x = splat_unit(a[r / 3] + r % 3 * t.a_row);
      GPT_UNROLL
      for (int v = 0; v < V; ++v)
        sum[r][v] = Arithmetic::add_product(sum[r][v], x, w[v]);
    }
    GPT_UNROLL
    for (int i = 0; i < kPointers; ++i)
      a[i] += t.a_unit;
    b += kWidth;
  };
  if constexpr (kAhead) {
    for (int64_t l = 0; l < t.k; next_b += Walk::kLine) {
      walk.fetch<true>();
      __builtin_prefetch(next_b, 0, 2);
      for (const int64_t end = l + gemm::kFetchUnits < t.k ? l + gemm::kFetchUnits : t.k; l < end; ++l)
        step();
    }
  } else if (R <= gemm::kFewRows && t.ahead != 0) {
    for (int64_t l = 0; l < t.k; ++l) {
      GPT_UNROLL
      for (int64_t line = 0; line < kWidth * static_cast<int64_t>(sizeof(T)); line += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(b) + t.ahead + line, 0, 2);
      step();
    }
  } else {
    for (int64_t l = 0; l < t.k; ++l) {
      walk.fetch<false>();
      step();
    }
  }
  GPT_UNROLL
  for (int r = 0; r < R; ++r)
    finish_row<V>(t, sum[r], t.c + r * t.ldc);
}

using TileFunction = void (*)(const TileArgs&);

template <class Arithmetic, class T, int R>
GPT_INLINE TileFunction pick_width(int64_t vecs) {
#if defined(GPT_SIMD_AVX512)
  return vecs == 1 ? tile_of<Arithmetic, T, R, 1> : tile_of<Arithmetic, T, R, 2>;
#else
  return vecs == 1   ? tile_of<Arithmetic, T, R, 1>
         : vecs == 2 ? tile_of<Arithmetic, T, R, 2>
                     : tile_of<Arithmetic, T, R, 3>;
#endif
}

template <class Arithmetic>
GPT_INLINE TileFunction pick_tile(int64_t rows, int64_t vecs) {
  switch (rows) {
    case 1:
      return pick_width<Arithmetic, uint32_t, 1>(vecs);
    case 2:
      return pick_width<Arithmetic, uint32_t, 2>(vecs);
    case 3:
      return pick_width<Arithmetic, uint32_t, 3>(vecs);
#if defined(GPT_SIMD_AVX512)
    case 4:
      return pick_width<Arithmetic, uint32_t, 4>(vecs);
    case 5:
      return pick_width<Arithmetic, uint32_t, 5>(vecs);
    case 6:
      return pick_width<Arithmetic, uint32_t, 6>(vecs);
    case 7:
      return pick_width<Arithmetic, uint32_t, 7>(vecs);
    case 8:
      return pick_width<Arithmetic, uint32_t, 8>(vecs);
    case 9:
      return pick_width<Arithmetic, uint32_t, 9>(vecs);
    case 10:
      return pick_width<Arithmetic, uint32_t, 10>(vecs);
    case 11:
      return pick_width<Arithmetic, uint32_t, 11>(vecs);
#endif
    default:
      return pick_width<Arithmetic, uint32_t, kRows>(vecs);
  }
}

// Of few rows and elements that become units on the way, because writing the units down would take longer.
template <class Arithmetic, class Half>
GPT_INLINE TileFunction pick_thin_tile(int64_t rows, int64_t vecs) {
  static_assert(gemm::kFewRows == 4);
  switch (rows) {
    case 1:
      return pick_width<Arithmetic, Half, 1>(vecs);
    case 2:
      return pick_width<Arithmetic, Half, 2>(vecs);
    case 3:
      return pick_width<Arithmetic, Half, 3>(vecs);
    default:
      return pick_width<Arithmetic, Half, 4>(vecs);
  }
}

template <class Arithmetic>
GPT_INLINE void compute_tile(const TileArgs& t) {
  if (t.next_b && t.rows == kRows && t.cols == kWidth)
    return tile_of<Arithmetic, uint32_t, kRows, kWidth / kLanes, true>(t);
  pick_tile<Arithmetic>(t.rows, (t.cols + kLanes - 1) / kLanes)(t);
}

}  // namespace
}  // namespace gpt::GPT_SIMD_NAMESPACE
