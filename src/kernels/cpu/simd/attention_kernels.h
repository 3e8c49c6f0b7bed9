#pragma once

#include <cstdint>

#include "kernels/cpu/simd/stored.h"

// The kernels of fused attention (Dao et al. 2022), one set for each instruction set. They work on tiles of
// keys in packed scratch memory; drivers/attention*.cpp selects the rows of a tile.
//
//   forward, for tiles of keys         backward, for tiles of keys, for tiles of queries
//     S = Q K^T                          S = Q K^T,  P = 2^(S - lse)
//     P = online softmax of S            dP = dO V^T
//     O = alpha O + P V                  dS = P * (dP - delta)
//                                        dV += P^T dO,  dK += dS^T Q,  dQ += dS K
//
// P are the attention weights. Each product is A B of packed operands, in fp32, or in bf16 with 32-bit words
// of k-packs of 2 (gemm/kernels.h):
//
//   operand                packed by            in fp32      in bf16
//   A: Q, dO               pack_a               [row][d]     [row][d]
//   B: K^T, V^T            pack_b_transposed    [d][key]     [d/2][key] words
//   B: V, K; Q, dO         pack_b               [row][d]     [row/2][d] words
namespace gpt {

// Tiles of keys start at multiples of this position in every call, so the order of every sum depends only on
// positions. 64 keys of width 64 fill half of a 32 KiB L1 cache.
inline constexpr int64_t kKeyTile = 64;

// int8 values are used unscaled; their scales are applied to the scores and to the weights. Elements of Q4_0
// blocks are multiplied by their scale when they are read.

// Rows to copy. Row i is base + rows[i] * ld, or zeros if rows[i] < 0; without rows, it is base + i * ld.
// `next` lists the same number of rows to prefetch, `next_column` elements further, because the hardware
// prefetcher does not handle the short, distant parts of rows that belong to a head.
struct PackRows {
  Stored type;
  const void* base;
  int64_t ld;
  const int64_t* rows;
  int64_t n;
  int64_t cols;
  const int64_t* next = nullptr;
  int64_t next_column = 0;
};

// The inverse: row i of src, times the scale, is stored to row rows[i] of base (row i without rows).
struct UnpackRows {
  Stored type;  // neither i8 nor q4_0
  void* base;
  int64_t ld;
  const int64_t* rows;
  int64_t n;
  int64_t cols;
  const float* src;  // rows of whole vectors
  int64_t ld_src;
  float scale;
};

// fp32 kernels pack rows of any dtype, bf16 kernels only bf16 rows. Scores are multiplied by `scale`, the
// scale of the shape times log2(e); logarithms of denominators are also to base 2.

// One tile of keys for a set of query rows in order of position: scores, online softmax (Milakov & Gimelshein
// 2018) and weighted sum of the values. Row r sees keys [begin[r], end[r]) of the tile; both bounds are
// non-decreasing in r. Other keys do not affect the row (in bf16: unless they are not finite).
struct AttentionForwardTile {
  int64_t rows, d, dp;  // dp: d rounded up to whole vectors
  float scale;
  const void* q;         // [rows,dp], packed by pack_a
  const void* kt;        // packed by pack_b_transposed
  const void* v;         // packed by pack_b
  const float* k_scale;  // [kKeyTile], factors of the scores, or null
  const float* v_scale;  // [kKeyTile], factors of the weights, or null
  const int32_t* begin;  // [rows]
  const int32_t* end;
  const float* keep;  // [rows,kKeyTile] dropout factors, or null
  float* max;         // [rows], running maximum of the scores
  float* sum;         // [rows,lanes], running denominators, one per vector lane
  float* out;         // [rows,dp], running numerators
};

// Writes out / sum to row (r / group) at column (r % group) * d of dst; total[r] receives the denominator.
struct AttentionFinish {
  int64_t rows, d, dp, group;
  const float* sum;  // [rows,lanes]
  const float* out;  // [rows,dp]
  Stored type;       // dtype of dst; not i8
  void* dst;
  int64_t ld;
  float* total;  // [rows]
};

// Backward pass of one tile of keys and up to kKeyTile queries of one head (Dao et al. 2022, Algorithm 4):
// recomputes the weights p from the saved lse, then adds to dv, dk and dq. Rows are as in the forward tile.
// dk and dq do not include the scale of the shape.
struct AttentionBackwardTile {
  int64_t rows, d, dp;
  float scale;
  const void *q, *dout;      // packed by pack_a
  const void *q_b, *dout_b;  // the same, packed by pack_b
  const void *kt, *vt;       // packed by pack_b_transposed
  const void* k;             // packed by pack_b
  const int32_t* begin;      // [rows]
  const int32_t* end;
  const float* lse;    // [rows]
  const float* delta;  // [rows], dout . out
  const float* keep;   // [rows,kKeyTile] or null
  float* p;            // [kKeyTile,kKeyTile] scratch
  float* ds;           // [kKeyTile,kKeyTile] scratch
  float* dk;           // [kKeyTile,dp], accumulated
  float* dv;           // [kKeyTile,dp], accumulated
  float* dq;           // [rows,dp]
  bool first;          // dq = instead of dq +=
};

// Packing and product kernels for one kind of operand. A packed row takes at most dp floats.
struct AttentionTiles {
  int64_t element;  // bytes of an element in packed rows
  // Packs rows as operand A: [n,ld] elements, padded with zeros to whole vectors.
  void (*pack_a)(const PackRows& src, void* dst, int64_t ld);
  // Packs kKeyTile rows as the columns of an operand B.
  void (*pack_b_transposed)(const PackRows& src, void* dst);
  // Packs rows as the rows of an operand B, dp wide.
  void (*pack_b)(const PackRows& src, void* dst, int64_t dp);
  void (*forward_tile)(const AttentionForwardTile& tile);
  // The same with identical bits, for few rows that all see the same keys; reads k and v unpacked. keys:
  // scratch memory for one tile, to which kt points. Null: not supported.
  void (*decode_tile)(const AttentionForwardTile& tile, const PackRows& k, const PackRows& v, float* keys);
  void (*backward_tile)(const AttentionBackwardTile& tile);
};

struct AttentionKernels {
  int64_t lanes;
  AttentionTiles fp32;
  void (*finish)(const AttentionFinish& finish);
  void (*unpack)(const UnpackRows& rows);
  // dst[i] = dot product of row i of a and row i of b, of the same dtype.
  void (*dots)(const PackRows& a, const PackRows& b, float* dst);
  // Computes the factors of dropout elements [first, first + n) of a site: 0 below the threshold (at least
  // 1), else scale.
  void (*dropout_factors)(uint64_t key, uint64_t first, int64_t n, uint32_t threshold, float scale,
                          float* dst);
};

extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512;
extern const AttentionTiles kAttentionTilesBf16;

// The AMX version, for head widths that are multiples of kAmxWidth. Sums have a different order. Packed
// queries must be padded with zeros to a multiple of kAmxWidth.
inline constexpr int64_t kAmxWidth = 32;
struct AttentionTileKernels {
  void (*forward_tile)(const AttentionForwardTile& tile);
  void (*backward_tile)(const AttentionBackwardTile& tile);
};
extern const AttentionTileKernels kAttentionAmx;

}  // namespace gpt
