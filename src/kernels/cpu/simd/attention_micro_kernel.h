#pragma once

#include "kernels/cpu/simd/attention_internal.h"

// The micro-kernel of attention computes C[mr,nr] = A B or C += A B over k in [from, to), with C in
// accumulator registers.
//
//   for k in [from, to)
//     b[0..NV) = B[k][0..nr)
//     for r in mr:  C[r][0..NV) += A(r,k), broadcast, * b[0..NV)
//
// This header is only included by attention*.cc. Operands are fp32 (Operands), or 32-bit words of two bf16
// values (Bf16Operands). For Bf16Operands, k counts words.

namespace gpt::GPT_SIMD_NAMESPACE {

// Number of rows of a micro-tile. With 32 registers, six rows of four vectors leave room for the vectors of
// B. With 16 registers, six rows of two vectors leave room for the vectors of B.
inline constexpr int kMr = 6;
#if defined(GPT_SIMD_AVX512)
inline constexpr int kNrVecs = 4;
#else
inline constexpr int kNrVecs = 2;
#endif

// Returns the number of vectors to process per pass, so that n vectors take the fewest passes and all passes
// are about equally full.
GPT_INLINE int64_t vecs_per_pass(int64_t n) {
  const int64_t passes = (n + kNrVecs - 1) / kNrVecs;
  return (n + passes - 1) / passes;
}

// The fp32 operands of the micro-kernel: A [.., k] with any strides, and B [k, vectors], where b points to
// row 0 of B.
struct Operands {
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t ldb;
};

template <int R, int NV>
GPT_INLINE void accumulate(Vec (&c)[R][NV], Operands x, int64_t from, int64_t to) {
  const float* b = x.b + from * x.ldb;
  const float* a = x.a + from * x.a_k;
  for (int64_t k = from; k < to; ++k, a += x.a_k, b += x.ldb) {
    Vec row[NV];
    GPT_UNROLL
    for (int v = 0; v < NV; ++v)
      row[v] = load(b + v * kLanes);
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec factor = set1(a[r * x.a_row]);
      GPT_UNROLL
      for (int v = 0; v < NV; ++v)
        c[r][v] = fma(factor, row[v], c[r][v]);
    }
  }
}

// The output C of the micro-kernel. `last` is the number of floats in the last vector of a row.
struct Output {
  float* c;
  int64_t ldc;
  bool accumulate;
  int64_t last;
};

// load_block() and store_block() move C between memory and registers. The last vector is masked unless
// `whole`.
template <bool whole, int R, int NV>
GPT_INLINE void load_block(Vec (&c)[R][NV], const float* from, int64_t ld, Mask last) {
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    const float* row = from + r * ld;
    GPT_UNROLL
    for (int v = 0; v + 1 < NV; ++v)
      c[r][v] = load(row + v * kLanes);
    c[r][NV - 1] = whole ? load(row + (NV - 1) * kLanes) : load(row + (NV - 1) * kLanes, last);
  }
}
template <bool whole, int R, int NV>
GPT_INLINE void store_block(const Vec (&c)[R][NV], float* to, int64_t ld, Mask last) {
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    float* row = to + r * ld;
    GPT_UNROLL
    for (int v = 0; v + 1 < NV; ++v)
      store(row + v * kLanes, c[r][v]);
    if (whole) {
      store(row + (NV - 1) * kLanes, c[r][NV - 1]);
    } else {
      store(row + (NV - 1) * kLanes, c[r][NV - 1], last);
    }
  }
}

// Loads rows of `ld` floats and multiplies each row by its factor alpha.
template <int R, int NV>
GPT_INLINE void load_scaled(Vec (&c)[R][NV], const float* from, int64_t ld, const float* alpha) {
  GPT_UNROLL
  for (int r = 0; r < R; ++r) {
    const Vec factor = set1(alpha[r]);
    GPT_UNROLL
    for (int v = 0; v < NV; ++v)
      c[r][v] = load(from + r * ld + v * kLanes) * factor;
  }
}

template <bool whole, int R, int NV, class X>
GPT_INLINE void micro_kernel_of(Output t, X x, int64_t from, int64_t to) {
  Vec c[R][NV];
  const Mask last = first_lanes(t.last);
  if (t.accumulate) {
    load_block<whole>(c, t.c, t.ldc, last);
  } else {
    clear(c);
  }
  accumulate(c, x, from, to);
  store_block<whole>(c, t.c, t.ldc, last);
}

template <int R, int NV, class X>
static void micro_kernel(const Output& t, const X& x, int64_t from, int64_t to) {
  if (t.last == kLanes) {
    micro_kernel_of<true, R, NV>(t, x, from, to);
  } else {
    micro_kernel_of<false, R, NV>(t, x, from, to);
  }
}

template <class X>
using MicroKernel = void (*)(const Output&, const X&, int64_t, int64_t);
#if defined(GPT_SIMD_AVX512)
#define GPT_MICRO_KERNELS(f)                                                        \
  {                                                                                 \
    {f<1, 1>, f<1, 2>, f<1, 3>, f<1, 4>}, {f<2, 1>, f<2, 2>, f<2, 3>, f<2, 4>},     \
        {f<3, 1>, f<3, 2>, f<3, 3>, f<3, 4>}, {f<4, 1>, f<4, 2>, f<4, 3>, f<4, 4>}, \
        {f<5, 1>, f<5, 2>, f<5, 3>, f<5, 4>}, {                                     \
      f<6, 1>, f<6, 2>, f<6, 3>, f<6, 4>                                            \
    }                                                                               \
  }
#else
#define GPT_MICRO_KERNELS(f)                                                                              \
  {                                                                                                       \
    {f<1, 1>, f<1, 2>}, {f<2, 1>, f<2, 2>}, {f<3, 1>, f<3, 2>}, {f<4, 1>, f<4, 2>}, {f<5, 1>, f<5, 2>}, { \
      f<6, 1>, f<6, 2>                                                                                    \
    }                                                                                                     \
  }
#endif
template <class X>
static constexpr MicroKernel<X> kMicroKernels[kMr][kNrVecs] = GPT_MICRO_KERNELS(micro_kernel);

// Computes C [rows,cols] = A B, or C += A B with `accumulate`, over k in [from, to). rows <= kMr.
template <class X>
GPT_INLINE void multiply_rows(float* c, int64_t ldc, bool accumulate, int64_t rows, int64_t cols, const X& x,
                              int64_t from, int64_t to) {
  const int64_t vecs = (cols + kLanes - 1) / kLanes;
  const int64_t step = vecs_per_pass(vecs);
  for (int64_t v = 0; v < vecs; v += step) {
    const int64_t n = least(step, vecs - v);
    const int64_t last = least(kLanes, cols - (v + n - 1) * kLanes);
    X part = x;
    part.b += v * kLanes;
    kMicroKernels<X>[rows - 1][n - 1]({c + v * kLanes, ldc, accumulate, last}, part, from, to);
  }
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
