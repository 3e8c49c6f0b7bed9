#pragma once

#include <type_traits>

#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/cpu/gemm/pack_panels.h"

// Micro-kernels for few rows of A that read an unpacked B once, in place, because packing B would take longer
// than the products. These micro-kernels add products in the same order as the packed micro-kernel.
//
//   B [k,n], contiguous along n                  B [n,k], contiguous along k
//     for l in k:                                  for kLanes elements of k:
//       w = B[l][columns]                            kLanes columns x kLanes elements of B are loaded and
//       acc[r][columns] += A[r][l] * w               transposed in registers: w[j] = B[columns][l + j]
//                                                    acc[r][columns] += A[r][l + j] * w[j]
//
// This header is only included by sources that are compiled once for each instruction set.

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

using ExactWords = Fp32Words<Exact>;

// Multiplies A with a B of shape [k,n], V vectors of adjacent columns at a time.
template <class Product, class T, int R, int V, bool kWhole>
void kernel_n_contiguous(const MicroKernelArgs& t) {
  constexpr int64_t kAhead =
      32;  // prefetch distance in rows of B: the hardware prefetcher stops at the end of the columns
  Vec acc[R][V];
  clear(acc);
  const auto* a = static_cast<const uint32_t*>(t.a);
  const T* b = static_cast<const T*>(t.b);
  for (int64_t l = 0; l < t.k; ++l, a += t.a_k, b += t.b_ld) {
    GPT_UNROLL
    for (int64_t line = 0; line < V * kLanes * static_cast<int64_t>(sizeof(T)); line += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(b + kAhead * t.b_ld) + line, 0, 2);
    IVec x[R];
    GPT_UNROLL
    for (int r = 0; r < R; ++r)
      x[r] = broadcast_word(a + r * t.a_row);
    GPT_UNROLL
    for (int v = 0; v < V; ++v) {
      const IVec w = kWhole ? ExactWords::from_row(b + v * kLanes) : ExactWords::from_row(b, t.cols);
      GPT_UNROLL
      for (int r = 0; r < R; ++r)
        acc[r][v] = Product::multiply_add(acc[r][v], x[r], w);
    }
  }
  GPT_UNROLL
  for (int r = 0; r < R; ++r)
    finish_row<V>(t, acc[r], t.c + r * t.ldc);
}

// Multiplies A with a B of shape [n,k], kLanes columns at a time, with one column in each lane.
template <class Product, class T, int R, bool kWhole>
void kernel_k_contiguous(const MicroKernelArgs& t) {
  const T* b = static_cast<const T*>(t.b);
  const auto* a = static_cast<const uint32_t*>(t.a);
  Vec acc[R][1];
  clear(acc);
  for (int64_t l = 0; l < t.k; l += kLanes, b += kLanes) {
    const int64_t n = t.k - l;
    Vec w[kLanes];
    GPT_UNROLL
    for (int64_t i = 0; i < kLanes; ++i) {
      const T* row = b + i * t.b_ld;
      if (!kWhole && i >= t.cols) {
        w[i] = zero();
      } else {
        w[i] = as_floats(n >= kLanes ? ExactWords::from_row(row) : ExactWords::from_row(row, n));
      }
      __builtin_prefetch(row + kLanes * t.b_ld, 0, 2);  // the same elements of the next columns
    }
    transpose(w);
    const auto add = [&](int64_t j) GPT_ALWAYS_INLINE {
      GPT_UNROLL
      for (int r = 0; r < R; ++r)
        acc[r][0] = Product::multiply_add(acc[r][0], broadcast_word(a + r * t.a_row), bits_of(w[j]));
      a += t.a_k;
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
    finish_row<1>(t, acc[r], t.c + r * t.ldc);
}

// Splits the rows of t into groups of 8 (if kMost >= 8), 4, 2 and 1 rows, and calls fn(args, R) for each
// group of R rows.
template <int kMost, class F>
GPT_INLINE void for_row_groups(MicroKernelArgs t, F fn) {
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
constexpr int kTransposedRows = 8;  // number of rows whose accumulators fit in registers next to a transposed
                                    // block of B
constexpr int kVecsForTwoRows = 8;  // number of column vectors whose accumulators fit in registers for two
                                    // rows
#else
constexpr int kTransposedRows = 4;
constexpr int kVecsForTwoRows = 4;
#endif

// Advances t to the next columns.
template <class T>
GPT_INLINE void advance(MicroKernelArgs& t) {
  t.b = static_cast<const T*>(t.b) + t.cols * (t.b_k_contiguous ? t.b_ld : 1);
  t.c += t.cols;
  if (t.bias) t.bias += t.cols;
}

template <class Product, class T>
void unpacked_k_contiguous(MicroKernelArgs t) {
  const int64_t cols = t.cols;
  int64_t at = 0;
  for (t.cols = kLanes; at + kLanes <= cols; at += t.cols, advance<T>(t)) {
    for_row_groups<kTransposedRows>(t, [](const MicroKernelArgs& rows, auto count) {
      kernel_k_contiguous<Product, T, count.value, true>(rows);
    });
  }
  t.cols = cols - at;
  if (t.cols == 0) return;
  for_row_groups<kTransposedRows>(t, [](const MicroKernelArgs& rows, auto count) {
    kernel_k_contiguous<Product, T, count.value, false>(rows);
  });
}

template <class Product, class T>
void unpacked_n_contiguous(MicroKernelArgs t) {
  const int64_t cols = t.cols;
  int64_t at = 0;
  // Processes V vectors of columns at a time, for groups of rows whose accumulators fit in registers.
  const auto wide = [&]<int V>(std::integral_constant<int, V>) {
    for (t.cols = V * kLanes; at + t.cols <= cols; at += t.cols, advance<T>(t)) {
      for_row_groups<4>(t, [](const MicroKernelArgs& rows, auto count) {
        if constexpr (count.value * V <= 2 * kVecsForTwoRows)
          kernel_n_contiguous<Product, T, count.value, V, true>(rows);
      });
    }
  };
  if (t.rows == 1) wide(std::integral_constant<int, 2 * kVecsForTwoRows>{});
  if (t.rows <= 2) wide(std::integral_constant<int, kVecsForTwoRows>{});
  wide(std::integral_constant<int, kVecsForTwoRows / 2>{});
  wide(std::integral_constant<int, 1>{});
  t.cols = cols - at;
  if (t.cols == 0) return;
  for_row_groups<4>(t, [](const MicroKernelArgs& rows, auto count) {
    kernel_n_contiguous<Product, T, count.value, 1, false>(rows);
  });
}

}  // namespace
}  // namespace gpt::GPT_SIMD_NAMESPACE
