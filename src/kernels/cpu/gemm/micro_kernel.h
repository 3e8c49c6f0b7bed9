#pragma once

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/cpu/simd/vec.h"

// The micro-kernel computes C[mr,nr] += A[mr,kc] B[kc,nr] and keeps all of C[mr,nr] in accumulator registers.
//
//   for l in kc:                     a rank-1 update (of k-packs)
//     w[0..V) = B[l][0..nr)          V vectors of the micro-panel
//     for r in mr:
//       x = A[r][l], broadcast
//       acc[r][0..V) += x * w[0..V)
//
// This header is only included by sources that are compiled once for each instruction set.

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

using gemm::MicroKernelArgs;

// A multiply-add has a latency of 4 to 6 cycles, and one (512 bits) or two (256 bits) start per cycle, so a
// micro-kernel needs at least 8 independent accumulators. Beyond that, the micro-tile should be as square as
// the register file allows, which minimizes the loads per multiply-add. With AVX-512, 12 x 2 accumulators and
// 2 vectors of B leave 6 of 32 registers free. With AVX2, 6 x 2 accumulators, 2 vectors of B and 1 vector of
// A leave 1 of 16 registers free. A tile of 4 x 3 accumulators would read B more often, and few model widths
// are multiples of 24.
constexpr int kNrVecs = 2;
#if defined(GPT_SIMD_AVX512)
constexpr int kMr = 12;
GPT_INLINE IVec broadcast_word(const uint32_t* p) {
  int word;
  __builtin_memcpy(&word, p, sizeof word);  // rows of 16-bit elements are not always word-aligned
  return _mm512_set1_epi32(word);
}
#else
constexpr int kMr = 6;
GPT_INLINE IVec broadcast_word(const uint32_t* p) {
  return bits_of(_mm256_broadcast_ss(reinterpret_cast<const float*>(p)));
}
#endif
constexpr int kNr = kLanes * kNrVecs;
static_assert(kMr >= gemm::kMinMr);

GPT_INLINE IVec load_words(const uint32_t* p) {
  return bits_of(load(reinterpret_cast<const float*>(p)));
}
template <class Half>
GPT_INLINE IVec load_words(const Half* p) {
  return bits_of(load(p));
}

// Adds the old C (with `accumulate`) and the bias to acc, and stores the result to C. Each call handles one
// vector of a row.
template <class Lanes>
GPT_INLINE void finish_vector(const MicroKernelArgs& t, Vec acc, float* c, int64_t col, Lanes lanes) {
  if (t.accumulate) acc = load(c + col, lanes) + acc;
  if (t.bias) acc = acc + load(t.bias + col, lanes);
  store(c + col, acc, lanes);
}

template <int V>
GPT_INLINE void finish_row(const MicroKernelArgs& t, const Vec* acc, float* c) {
  GPT_UNROLL
  for (int v = 0; v < V; ++v) {
    const int64_t left = t.cols - v * kLanes;
    if (left >= kLanes) {
      finish_vector(t, acc[v], c, v * kLanes, AllLanes{});
    } else if (left > 0) {
      finish_vector(t, acc[v], c, v * kLanes, first_lanes(left));
    }
  }
}

// Prefetches the memory described by MicroKernelArgs::prefetch. Each call prefetches one cache line,
// alternating between the rows.
struct Prefetcher {
  static constexpr int64_t kLineWords = 64 / sizeof(uint32_t);
  const uint32_t* at;
  int64_t stride, rows, rows_left;

  explicit Prefetcher(const MicroKernelArgs& t)
      : at(static_cast<const uint32_t*>(t.prefetch)),
        stride(t.prefetch_stride),
        rows(t.prefetch_rows),
        rows_left(t.prefetch_rows) {}
  template <bool kToWrite>
  GPT_ALWAYS_INLINE void next_line() {
    __builtin_prefetch(at, kToWrite, 2);
    at += stride;
    if (--rows_left == 0) {
      at += kLineWords - rows * stride;
      rows_left = rows;
    }
  }
};

// A micro-kernel for R rows and V vectors of columns. T is the element type of the micro-panel: 32-bit words,
// or 16-bit elements that the kernel widens. Product::multiply_add adds the products of the k-packs of x and
// w. For kPrefetchNext, see MicroKernelArgs::prefetch_b.
template <class Product, class T, int R, int V, bool kPrefetchNext = false>
void micro_kernel(const MicroKernelArgs& t) {
  Vec acc[R][V];
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    if (!kPrefetchNext) __builtin_prefetch(t.c + r * t.ldc, 1);
    if (!kPrefetchNext && V > 1) __builtin_prefetch(t.c + r * t.ldc + kLanes, 1);
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      acc[r][v] = zero();
  }
  // Three rows share a pointer, so that all addresses fit into registers.
  constexpr int kPointers = (R + 2) / 3;
  const uint32_t* a[kPointers];
  GPT_UNROLL
  for (int i = 0; i < kPointers; ++i)
    a[i] = static_cast<const uint32_t*>(t.a) + 3 * i * t.a_row;
  const T* b = static_cast<const T*>(t.b);
  Prefetcher prefetcher(t);
  [[maybe_unused]] const auto* prefetch_b = static_cast<const uint32_t*>(t.prefetch_b);
  const auto rank_1_update = [&]() GPT_ALWAYS_INLINE {
    IVec w[V];
    GPT_UNROLL
    for (int v = 0; v < V; ++v)
      w[v] = load_words(b + v * kLanes);
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const IVec x = broadcast_word(a[r / 3] + r % 3 * t.a_row);
      GPT_UNROLL
      for (int v = 0; v < V; ++v)
        acc[r][v] = Product::multiply_add(acc[r][v], x, w[v]);
    }
    GPT_UNROLL
    for (int i = 0; i < kPointers; ++i)
      a[i] += t.a_k;
    b += kNr;
  };
  if constexpr (kPrefetchNext) {
    for (int64_t l = 0; l < t.k; prefetch_b += Prefetcher::kLineWords) {
      prefetcher.next_line<true>();
      __builtin_prefetch(prefetch_b, 0, 2);
      for (const int64_t end = l + gemm::kPrefetchWords < t.k ? l + gemm::kPrefetchWords : t.k; l < end; ++l)
        rank_1_update();
    }
  } else if (R <= gemm::kFewRows && t.prefetch_distance != 0) {
    for (int64_t l = 0; l < t.k; ++l) {
      GPT_UNROLL
      for (int64_t line = 0; line < kNr * static_cast<int64_t>(sizeof(T)); line += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(b) + t.prefetch_distance + line, 0, 2);
      rank_1_update();
    }
  } else {
    for (int64_t l = 0; l < t.k; ++l) {
      prefetcher.next_line<false>();
      rank_1_update();
    }
  }
  GPT_UNROLL
  for (int r = 0; r < R; ++r)
    finish_row<V>(t, acc[r], t.c + r * t.ldc);
}

using MicroKernel = void (*)(const MicroKernelArgs&);

template <class Product, class T, int R>
GPT_INLINE MicroKernel pick_vecs(int64_t vecs) {
  return vecs == 1 ? micro_kernel<Product, T, R, 1> : micro_kernel<Product, T, R, kNrVecs>;
}

// Returns the micro-kernel for `rows` rows, where 1 <= rows <= R.
template <class Product, class T, int R>
GPT_INLINE MicroKernel pick_micro_kernel(int64_t rows, int64_t vecs) {
  if constexpr (R > 1) {
    if (rows < R) return pick_micro_kernel<Product, T, R - 1>(rows, vecs);
  }
  return pick_vecs<Product, T, R>(vecs);
}

template <class Product>
GPT_INLINE void run_micro_kernel(const MicroKernelArgs& t) {
  if (t.prefetch_b && t.rows == kMr && t.cols == kNr)
    return micro_kernel<Product, uint32_t, kMr, kNr / kLanes, true>(t);
  pick_micro_kernel<Product, uint32_t, kMr>(t.rows, (t.cols + kLanes - 1) / kLanes)(t);
}

}  // namespace
}  // namespace gpt::GPT_SIMD_NAMESPACE
