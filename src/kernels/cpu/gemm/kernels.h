#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace gpt {
struct UnpackedBlock;
}

namespace gpt::gemm {

// Declares the micro-kernels and packing kernels for C[m,n] = A[m,k] B[k,n]. The terms are those of BLIS and
// oneDNN. The loops around a micro-kernel are in gemm.cpp and weight_gradient.cpp:
//
//   for tasks of mc rows and nc columns of C        in parallel
//     for blocks of kc words along k                packs A: [mc,kc]
//       for panels of nr columns                    packs B: [kc,nr], unless it is packed already
//         for mr rows                               micro-kernel: C[mr,nr] += A[mr,kc] B[kc,nr]
//
// Packed operands consist of 32-bit words. A word holds one k-pack, which is `k_pack` consecutive elements
// along k: one fp32 value or two bf16 values (oneDNN's VNNI layout). Words past the end of k are zero.
//
//   a micro-panel of B, nr columns wide, with k_pack = 2:
//
//     word 0      | B[0][0] B[1][0] | B[0][1] B[1][1] | ... | B[0][nr-1] B[1][nr-1] |
//     word 1      | B[2][0] B[3][0] | B[2][1] B[3][1] | ... | B[2][nr-1] B[3][nr-1] |
//     ...                                                    words of k, one row each
//
// There are two ways to pack A. If A is packed by rows, word l of row r is a[r * a_row + l]. If A is packed
// in micro-panels like B, word l of row r is a[l * a_k + r].
//
// Every element of C is a sum of products, in order of k. The sum is computed in blocks of kc words, and the
// block sums are added in order. kc depends only on k, not on the size or position of the micro-tile. The
// bits of a row of C therefore depend only on that row of A, on B and on k.

// The contents of the 32-bit words of a packed operand.
enum class PackFormat : uint8_t {
  f32,
  f32_of_bf16,  // rounded to bf16, stored as fp32
  f32_of_f16,
  bf16_pairs,
};

// Arguments for packing one micro-panel. Word l of column i is stored in dst[l * width + i]. `width` is a
// multiple of four; columns from `count` to `width` are set to zero.
struct PackPanelArgs {
  const void* src;
  DType type;  // f32, bf16 or f16
  int64_t ld;
  bool k_contiguous;  // true: element (i, l) is src[i * ld + l]; false: src[l * ld + i]
  int64_t count;
  int64_t k;  // in elements
  int64_t width;
  uint32_t* dst;
  float* sums = nullptr;  // [count]: if set, the sums over k of the unrounded elements are added to it; not
                          // with k_contiguous
};

// Arguments for packing A by rows. Each row of k elements becomes a row of words.
struct PackRowsArgs {
  const void* src;
  DType type;
  int64_t ld;
  int64_t rows;
  int64_t k;  // elements
  uint32_t* dst;
  int64_t dst_ld;  // words
};

inline constexpr int64_t kFewRows = 4;
inline constexpr int64_t kMinMr = 6;  // minimum mr of all micro-kernels; bounds the padding of micro-panels
inline constexpr int64_t kPrefetchWords = 8;

// Arguments of a micro-kernel, which computes C[rows, cols] = A B (+ C) (+ bias), where rows <= mr and cols
// <= nr.
struct MicroKernelArgs {
  int64_t rows, cols;
  int64_t k;  // words
  const void* a;
  int64_t a_row, a_k;  // strides in words from row to row, and along k
  // The memory to prefetch. The micro-kernel prefetches one cache line for each word of k, alternating
  // between `prefetch_rows` rows that are `prefetch_stride` words apart.
  const void* prefetch;
  int64_t prefetch_stride, prefetch_rows;
  // If prefetch_b is not null, the micro-kernel prefetches two cache lines after every kPrefetchWords words
  // of k: a line of `prefetch` for writing, and a line of `prefetch_b` for reading. prefetch_b is only
  // supported for full micro-tiles.
  const void* prefetch_b = nullptr;
  const void* b;  // a micro-panel
  DType b_type;   // f32: 32-bit words; bf16 or f16: 16-bit elements that the kernel widens (up to kFewRows
                  // rows)
  // The layout of B for the unpacked kernel, as in PackPanelArgs.
  int64_t b_ld;
  bool b_k_contiguous;
  int64_t prefetch_distance;  // prefetch distance in B in bytes, for up to kFewRows rows; 0: no prefetch
  float* c;
  int64_t ldc;
  const float* bias;  // null: no bias
  bool accumulate;    // true: add to the contents of C
};

// Arguments for converting src to dst[rows, cols] in the dtype of dst. With `accumulate`, the result is added
// to dst.
struct ConvertArgs {
  int64_t rows, cols;
  const void* src;
  DType src_type;
  int64_t src_ld;
  void* dst;
  DType dst_type;
  int64_t dst_ld;
  bool accumulate;
};

struct Kernels {
  int64_t mr, nr, k_pack;
  void (*pack_panel)(PackFormat format, const PackPanelArgs&);
  void (*pack_rows)(PackFormat format, const PackRowsArgs&);
  void (*micro_kernel)(const MicroKernelArgs&);
  void (*convert)(const ConvertArgs&);
  void (*dequantize)(const UnpackedBlock&,
                     float* dst);  // dequantizes 32 values; same results as dequantize_block
  // Maximum number of words in a block of k. The products of a block are summed before they are added to C.
  // Sums of blocks have smaller rounding errors than one long sum; shorter blocks would access C more often.
  int64_t max_kc = 512;
  // True if micro-kernels prefetch C of the next micro-tile and B of the next panel (prefetch_b). This is
  // faster if L3 latency is high and the CPU starts two multiply-adds per cycle. On such a CPU, a prefetch in
  // every iteration would take too much time.
  bool prefetch_next = false;
  // For micro-kernels that require contiguous rows of A (a_k 1): packs columns of the source as such rows and
  // stores word l of column i in dst[i * width + l]. Null if the micro-kernel supports any a_k.
  void (*pack_rows_transposed)(const PackPanelArgs&) = nullptr;
  // A kernel for fp32 words that reads an unpacked B in place (BLIS: gemmsup). The kernel does not round the
  // elements of B, so b_type must be the dtype of the product, or the product must be in fp32. The kernel is
  // faster for up to kUnpackedRows rows. Null if there is no such kernel.
  void (*unpacked_kernel)(const MicroKernelArgs&) = nullptr;
};
inline constexpr int64_t kUnpackedRows = 16;
inline constexpr int64_t kUnpackedColumns = 128;  // maximum columns of C in a call, if B is [k,n]

Kernels fp32_kernels_avx2();
Kernels fp32_kernels_avx512();
Kernels bf16_kernels_avx512();  // words are bf16_pairs, rounded like the bf16 instructions do
Kernels bf16_kernels_amx();     // words are bf16_pairs; rows of A must be contiguous (a_k 1)

}  // namespace gpt::gemm
