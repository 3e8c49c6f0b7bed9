#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace gpt {
struct UnpackedBlock;
}

namespace gpt::gemm {

// The micro-kernels and packing kernels of C[m,n] = A[m,k] B[k,n], in the terms of BLIS and oneDNN. The loops
// around a micro-kernel are in gemm.cpp and weight_gradient.cpp:
//
//   for tasks of mc rows and nc columns of C        in parallel
//     for blocks of kc words along k                packs A: [mc,kc]
//       for panels of nr columns                    packs B: [kc,nr], unless it is packed already
//         for mr rows                               micro-kernel: C[mr,nr] += A[mr,kc] B[kc,nr]
//
// Packed operands consist of 32-bit words. A word holds a k-pack: `k_pack` consecutive elements along k,
// which are one fp32 value or two bf16 values (oneDNN's VNNI layout). Words past the end of k are zero.
//
//   a micro-panel of B, nr columns wide, with k_pack = 2:
//
//     word 0      | B[0][0] B[1][0] | B[0][1] B[1][1] | ... | B[0][nr-1] B[1][nr-1] |
//     word 1      | B[2][0] B[3][0] | B[2][1] B[3][1] | ... | B[2][nr-1] B[3][nr-1] |
//     ...                                                    words of k, one row each
//
//   A: by rows, where word l of row r is a[r * a_row + l]; or in micro-panels like B, where it is a[l * a_k +
//   r]
//
// Every element of C is a sum over k in order, in blocks of kc words, with block sums added in order. kc
// depends only on k, not on the size or position of the micro-tile. The bits of a row of C therefore depend
// only on that row of A, on B and on k.

// The contents of the words of a packed operand.
enum class PackFormat : uint8_t {
  f32,
  f32_of_bf16,  // rounded to bf16, kept as fp32
  f32_of_f16,
  bf16_pairs,
};

// Packs one micro-panel: word l of column i becomes dst[l * width + i]. width is a multiple of four; columns
// from count to width are zero.
struct PackPanelArgs {
  const void* src;
  DType type;  // f32, bf16 or f16
  int64_t ld;
  bool k_contiguous;  // element (i, l) is src[i * ld + l], else src[l * ld + i]
  int64_t count;
  int64_t k;  // elements
  int64_t width;
  uint32_t* dst;
  float* sums = nullptr;  // [count]: adds the unrounded elements over k; unsupported with k_contiguous
};

// Packs A by rows: rows of k elements become rows of words.
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

// A micro-kernel: C[rows, cols] = A B (+ C) (+ bias) for rows <= mr, cols <= nr.
struct MicroKernelArgs {
  int64_t rows, cols;
  int64_t k;  // words
  const void* a;
  int64_t a_row, a_k;  // words from row to row, and along k
  // Memory to prefetch: one cache line for each word of k, alternating between `prefetch_rows` rows that are
  // `prefetch_stride` words apart.
  const void* prefetch;
  int64_t prefetch_stride, prefetch_rows;
  // If not null: every kPrefetchWords words of k, prefetches a line of `prefetch` for writing, and a line
  // starting here for reading. Only for full micro-tiles.
  const void* prefetch_b = nullptr;
  const void* b;  // a micro-panel
  DType b_type;   // f32: words; bf16 or f16: elements that the kernel widens to fp32, for up to kFewRows rows
  // For the unpacked kernel: B in the layout of PackPanelArgs.
  int64_t b_ld;
  bool b_k_contiguous;
  int64_t prefetch_distance;  // prefetch distance in B in bytes, for up to kFewRows rows; 0: none
  float* c;
  int64_t ldc;
  const float* bias;  // null: none
  bool accumulate;    // add to the contents of C
};

// dst[rows, cols] = src (+ dst), converted to the dtype of dst.
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
                     float* dst);  // dequantizes 32 values, with the results of dequantize_block
  // Maximum words of a block of k, whose products are summed before they are added to C. This rounds less
  // than one long sum; shorter blocks would access C more often.
  int64_t max_kc = 512;
  // Whether micro-kernels prefetch C of the next micro-tile and B of the next panel (prefetch_b). Pays if L3
  // latency is high and two multiply-adds start in a cycle, so that a prefetch in every iteration would cost
  // time.
  bool prefetch_next = false;
  // For micro-kernels that require contiguous rows of A (a_k 1): packs columns of the source as such rows,
  // word l of column i to dst[i * width + l]. Null: any a_k is supported.
  void (*pack_rows_transposed)(const PackPanelArgs&) = nullptr;
  // A kernel for fp32 words that reads an unpacked B in place (BLIS: gemmsup). Elements of B (b_type) must
  // need no rounding. Faster for up to kUnpackedRows rows. Null: none.
  void (*unpacked_kernel)(const MicroKernelArgs&) = nullptr;
};
inline constexpr int64_t kUnpackedRows = 16;
inline constexpr int64_t kUnpackedColumns = 128;  // columns of C in a call, if B is [k,n]

Kernels fp32_kernels_avx2();
Kernels fp32_kernels_avx512();
Kernels bf16_kernels_avx512();  // words are bf16_pairs; rounding as in the bf16 instructions
Kernels bf16_kernels_amx();     // the same words; rows of A must be contiguous (a_k 1)

}  // namespace gpt::gemm
