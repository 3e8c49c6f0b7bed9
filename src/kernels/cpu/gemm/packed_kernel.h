#pragma once

#include <cstdint>

namespace gpt::gemm {

// The packed kernel: both operands are first copied into strips, so that the inner loop reads memory in
// order. Every element of C is a chain of fused multiply-adds over k in order, in blocks of k_block(k)
// whose sums are added in order, whatever the size and position of the tile it is computed in: the bits
// of a row of C depend on that row of A, on B and on k alone.

// A strip of A: `count` rows (at most mr) of `k` elements, as dst[l * count + i].
// A strip of B: `count` columns (at most nr), as dst[l * nr + j], columns from count to nr zero.
struct PackArgs {
  const float* src;
  int64_t ld;
  bool k_contiguous;  // element (i, l) is src[i * ld + l], else src[l * ld + i]
  int64_t count;
  int64_t k;
  int64_t width;  // distance from l to l + 1 in dst: count for A, nr for B
  float* dst;
};

// C[rows, cols] = A B (+ C) (+ bias): strips of A are mr * k apart, strips of B nr * k.
struct BlockArgs {
  int64_t rows, cols, k;
  const float* a;
  const float* b;
  float* c;
  int64_t ldc;
  const float* bias;  // null: none
  bool add;           // to what C holds
};

// The same for up to kMaxThinRows rows of A and just nr rows of B's transpose, both read in place: packing
// would cost more than multiplying.
inline constexpr int64_t kMaxThinRows = 4;
struct ThinArgs {
  int64_t rows, k;
  const float* a;
  int64_t lda;
  const float* b;  // element (l, j) is b[j * ldb + l]
  int64_t ldb;
  float* c;
  int64_t ldc;
  const float* bias;
  bool add;
};

struct PackedKernel {
  int64_t mr, nr;
  void (*pack)(const PackArgs&);
  void (*block)(const BlockArgs&);
  void (*thin)(const ThinArgs&);
};

PackedKernel packed_kernel_avx2();
PackedKernel packed_kernel_avx512();

}  // namespace gpt::gemm
