#pragma once

#include <type_traits>

#include "kernels/cpu/gemm/strips.h"
#include "kernels/cpu/gemm/tile.h"
#include "kernels/cpu/simd/attention_transpose.inc"

// Few rows of A with a B that is read where it is, once: making strips of it would take longer than the
// products. The sums are those of tiles and strips of fp32 units. Internal to the units compiled once per
// instruction set.

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

using PlainUnits = Fp32Units<Exact>;

// B is [k,n]: V vectors of columns side by side.
template <class Arithmetic, class T, int R, int V, bool kWhole>
void columns_of_b(const TileArgs& t) {
  constexpr int64_t kAhead = 32;  // rows of B: the processor's own prefetching ends with the columns
  Vec sum[R][V];
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      sum[r][v] = zero();
  }
  const auto* a = static_cast<const uint32_t*>(t.a);
  const T* b = static_cast<const T*>(t.b);
  for (int64_t l = 0; l < t.k; ++l, a += t.a_unit, b += t.b_ld) {
    GPT_UNROLL
    for (int64_t line = 0; line < V * kLanes * static_cast<int64_t>(sizeof(T)); line += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(b + kAhead * t.b_ld) + line, 0, 2);
    IVec x[R];
    GPT_UNROLL
    for (int r = 0; r < R; ++r)
      x[r] = splat_unit(a + r * t.a_row);
    GPT_UNROLL
    for (int v = 0; v < V; ++v) {
      const IVec w = kWhole ? PlainUnits::along(b + v * kLanes) : PlainUnits::along(b, t.cols);
      GPT_UNROLL
      for (int r = 0; r < R; ++r)
        sum[r][v] = Arithmetic::add_product(sum[r][v], x[r], w);
    }
  }
  GPT_UNROLL
  for (int r = 0; r < R; ++r)
    finish_row<V>(t, sum[r], t.c + r * t.ldc);
}

// B is [n,k]: a column in every lane.
template <class Arithmetic, class T, int R, bool kWhole>
void rows_of_b(const TileArgs& t) {
  const T* b = static_cast<const T*>(t.b);
  const auto* a = static_cast<const uint32_t*>(t.a);
  Vec sum[R][1];
  GPT_UNROLL
  for (int r = 0; r < R; ++r)
    sum[r][0] = zero();
  for (int64_t l = 0; l < t.k; l += kLanes, b += kLanes) {
    const int64_t n = t.k - l;
    Vec w[kLanes];
    GPT_UNROLL
    for (int64_t i = 0; i < kLanes; ++i) {
      const T* row = b + i * t.b_ld;
      if (!kWhole && i >= t.cols) {
        w[i] = zero();
      } else {
        w[i] = as_floats(n >= kLanes ? PlainUnits::along(row) : PlainUnits::along(row, n));
      }
      __builtin_prefetch(row + kLanes * t.b_ld, 0, 2);  // the columns that come next
    }
    transpose(w);
    const auto add = [&](int64_t j) GPT_ALWAYS_INLINE {
      GPT_UNROLL
      for (int r = 0; r < R; ++r)
        sum[r][0] = Arithmetic::add_product(sum[r][0], splat_unit(a + r * t.a_row), bits_of(w[j]));
      a += t.a_unit;
    };
    if (n >= kLanes) {
      GPT_UNROLL
      for (int64_t j = 0; j < kLanes; ++j)
        add(j);
    } else {
      for (int64_t j = 0; j < n; ++j)
        add(j);
    }
  }
  GPT_UNROLL
  for (int r = 0; r < R; ++r)
    finish_row<1>(t, sum[r], t.c + r * t.ldc);
}

// fn(args, R) for the rows of t: eight, four, two or one at a time, at most kMost.
template <int kMost, class F>
GPT_INLINE void for_row_groups(TileArgs t, F fn) {
  int64_t left = t.rows;
  const auto groups_of = [&]<int R>(std::integral_constant<int, R> rows) {
    for (t.rows = R; left >= R; left -= R) {
      fn(t, rows);
      t.a = static_cast<const uint32_t*>(t.a) + R * t.a_row;
      t.c += R * t.ldc;
    }
  };
  if constexpr (kMost >= 8) groups_of(std::integral_constant<int, 8>{});
  groups_of(std::integral_constant<int, 4>{});
  groups_of(std::integral_constant<int, 2>{});
  groups_of(std::integral_constant<int, 1>{});
}

#if defined(GPT_SIMD_AVX512)
constexpr int kRowsWithLanes = 8, kVecsOfTwo = 8;  // rows beside a block of B; vectors of columns of two rows
#else
constexpr int kRowsWithLanes = 4, kVecsOfTwo = 4;
#endif

// From the columns of t to those behind them.
template <class T>
GPT_INLINE void advance(TileArgs& t) {
  t.b = static_cast<const T*>(t.b) + t.cols * (t.b_k_contiguous ? t.b_ld : 1);
  t.c += t.cols;
  if (t.bias) t.bias += t.cols;
}

template <class Arithmetic, class T>
void multiply_rows_of_b(TileArgs t) {
  const int64_t cols = t.cols;
  int64_t at = 0;
  for (t.cols = kLanes; at + kLanes <= cols; at += t.cols, advance<T>(t)) {
    for_row_groups<kRowsWithLanes>(
        t, [](const TileArgs& rows, auto count) { rows_of_b<Arithmetic, T, count.value, true>(rows); });
  }
  t.cols = cols - at;
  if (t.cols == 0) return;
  for_row_groups<kRowsWithLanes>(
      t, [](const TileArgs& rows, auto count) { rows_of_b<Arithmetic, T, count.value, false>(rows); });
}

template <class Arithmetic, class T>
void multiply_columns_of_b(TileArgs t) {
  const int64_t cols = t.cols;
  int64_t at = 0;
  // Columns of V vectors; all groups of rows have registers for them.
  const auto wide = [&]<int V>(std::integral_constant<int, V>) {
    for (t.cols = V * kLanes; at + t.cols <= cols; at += t.cols, advance<T>(t)) {
      for_row_groups<4>(t, [](const TileArgs& rows, auto count) {
        if constexpr (count.value * V <= 2 * kVecsOfTwo)
          columns_of_b<Arithmetic, T, count.value, V, true>(rows);
      });
    }
  };
  if (t.rows == 1) wide(std::integral_constant<int, 2 * kVecsOfTwo>{});
  if (t.rows <= 2) wide(std::integral_constant<int, kVecsOfTwo>{});
  wide(std::integral_constant<int, kVecsOfTwo / 2>{});
  wide(std::integral_constant<int, 1>{});
  t.cols = cols - at;
  if (t.cols == 0) return;
  for_row_groups<4>(
      t, [](const TileArgs& rows, auto count) { columns_of_b<Arithmetic, T, count.value, 1, false>(rows); });
}

}  // namespace
}  // namespace gpt::GPT_SIMD_NAMESPACE
