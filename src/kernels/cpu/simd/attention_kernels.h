#pragma once

#include <cstdint>

#include "kernels/cpu/simd/stored.h"

// Declares the kernels of fused attention (Dao et al. 2022), one set for each instruction set. They work on
// tiles of keys in packed scratch memory. drivers/attention*.cpp selects the rows of a tile.
//
//   forward, for tiles of keys         backward, for tiles of keys, for tiles of queries
//     S = Q K^T                          S = Q K^T,  P = 2^(S - lse)
//     P = online softmax of S            dP = dO V^T
//     O = alpha O + P V                  dS = P * (dP - delta)
//                                        dV += P^T dO,  dK += dS^T Q,  dQ += dS K
//
// P is the matrix of attention weights. Each product has the form A B with packed operands, either in fp32,
// or in bf16 with 32-bit words of two values (gemm/kernels.h):
//
//   operand                packed by            in fp32      in bf16
//   A: Q, dO               pack_a               [row][d]     [row][d]
//   B: K^T, V^T            pack_b_transposed    [d][key]     [d/2][key] words
//   B: V, K; Q, dO         pack_b               [row][d]     [row/2][d] words
namespace gpt {

// Number of keys in a tile. In every call, tiles start at positions that are multiples of kKeyTile. The order
// of every sum therefore depends only on positions. 64 keys of width 64 fill half of a 32 KiB L1 cache.
inline constexpr int64_t kKeyTile = 64;

// The products use int8 keys and values without their scales. The scales are applied to the scores and to the
// attention weights instead. Elements of Q4_0 blocks are multiplied by their scale when they are read.

// The rows to pack. Row i starts at base + rows[i] * ld, or is zero if rows[i] < 0. If `rows` is null, row i
// starts at base + i * ld. `next` lists one row to prefetch for each row to pack; the prefetch starts
// `next_column` elements further. Prefetching is explicit because the part of a row that belongs to one head
// is too short for the hardware prefetcher.
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

// The rows to unpack. Unpacking is the inverse of packing: row i of src, times the scale, is stored in row
// rows[i] of base, or in row i if `rows` is null.
struct UnpackRows {
  Stored type;  // not i8 or q4_0
  void* base;
  int64_t ld;
  const int64_t* rows;
  int64_t n;
  int64_t cols;
  const float* src;  // rows are padded to whole vectors
  int64_t ld_src;
  float scale;
};

// fp32 kernels pack rows of any dtype, and bf16 kernels pack only bf16 rows. Scores are multiplied by
// `scale`, which is the scale of the shape times log2(e). Logarithms of softmax denominators also use base 2.

// Arguments for processing one tile of keys: scores, online softmax (Milakov & Gimelshein 2018), and the
// weighted sum of the values. The query rows are ordered by position. Row r attends to keys [begin[r],
// end[r]) of the tile; both bounds are non-decreasing in r. Other keys do not affect row r, except that in
// bf16 a non-finite value of such a key may affect it.
struct AttentionForwardTile {
  int64_t rows, d, dp;  // dp: d rounded up to whole vectors
  float scale;
  const void* q;         // [rows,dp], packed by pack_a
  const void* kt;        // packed by pack_b_transposed
  const void* v;         // packed by pack_b
  const float* k_scale;  // [kKeyTile]: factors of the scores, or null
  const float* v_scale;  // [kKeyTile]: factors of the attention weights, or null
  const int32_t* begin;  // [rows]
  const int32_t* end;
  const float* keep;  // [rows,kKeyTile] dropout factors, or null
  float* max;         // [rows]: running maximum of the scores
  float* sum;         // [rows,lanes]: running denominators, one per vector lane
  float* out;         // [rows,dp]: running numerators
};

// Arguments for the last step of the forward pass. Row r of out / sum is stored in row (r / group) of dst, at
// column (r % group) * d. total[r] receives the denominator.
struct AttentionFinish {
  int64_t rows, d, dp, group;
  const float* sum;  // [rows,lanes]
  const float* out;  // [rows,dp]
  Stored type;       // dtype of dst; not i8
  void* dst;
  int64_t ld;
  float* total;  // [rows]
};

// Arguments for the backward pass of one tile of keys and up to kKeyTile queries of one head (Dao et al.
// 2022, Algorithm 4). The kernel recomputes the attention weights p from the saved lse, then adds to dv, dk
// and dq. Rows have the same meaning as in AttentionForwardTile. dk and dq do not include the scale of the
// shape.
struct AttentionBackwardTile {
  int64_t rows, d, dp;
  float scale;
  const void *q, *dout;      // packed by pack_a
  const void *q_b, *dout_b;  // q and dout packed by pack_b
  const void *kt, *vt;       // packed by pack_b_transposed
  const void* k;             // packed by pack_b
  const int32_t* begin;      // [rows]
  const int32_t* end;
  const float* lse;    // [rows]
  const float* delta;  // [rows]: dout . out
  const float* keep;   // [rows,kKeyTile] or null
  float* p;            // [kKeyTile,kKeyTile] scratch
  float* ds;           // [kKeyTile,kKeyTile] scratch
  float* dk;           // [kKeyTile,dp], accumulated
  float* dv;           // [kKeyTile,dp], accumulated
  float* dq;           // [rows,dp]
  bool first;          // true: overwrite dq; false: add to dq
};

// Packing and product kernels for one operand dtype. A packed row takes at most dp floats.
struct AttentionTiles {
  int64_t element;  // size of an element in packed rows, in bytes
  // Packs rows as an operand A of [n,ld] elements, padded with zeros to whole vectors.
  void (*pack_a)(const PackRows& src, void* dst, int64_t ld);
  // Packs kKeyTile rows as the columns of an operand B.
  void (*pack_b_transposed)(const PackRows& src, void* dst);
  // Packs rows as the rows of an operand B, which is dp wide.
  void (*pack_b)(const PackRows& src, void* dst, int64_t dp);
  void (*forward_tile)(const AttentionForwardTile& tile);
  // Computes the same as forward_tile, with bit-identical results, for few rows that all attend to the same
  // keys. Reads k and v unpacked. keys: scratch memory for one tile; tile.kt must point to it. Null if not
  // supported.
  void (*decode_tile)(const AttentionForwardTile& tile, const PackRows& k, const PackRows& v, float* keys);
  void (*backward_tile)(const AttentionBackwardTile& tile);
};

struct AttentionKernels {
  int64_t lanes;
  AttentionTiles fp32;
  void (*finish)(const AttentionFinish& finish);
  void (*unpack)(const UnpackRows& rows);
  // Computes dst[i], the dot product of row i of a and row i of b. a and b must have the same dtype.
  void (*dots)(const PackRows& a, const PackRows& b, float* dst);
  // Computes the factors of dropout elements [first, first + n) of a site. A factor is 0 if the random word
  // is below `threshold` (at least 1), else `scale`.
  void (*dropout_factors)(uint64_t key, uint64_t first, int64_t n, uint32_t threshold, float scale,
                          float* dst);
};

extern const AttentionKernels kAttentionAvx2;
extern const AttentionKernels kAttentionAvx512;
extern const AttentionTiles kAttentionTilesBf16;

// The AMX kernels, for head widths that are multiples of kAmxWidth. The AMX kernels add products in a
// different order than the other kernels. Packed queries must be padded with zeros to a multiple of
// kAmxWidth.
inline constexpr int64_t kAmxWidth = 32;
struct AttentionTileKernels {
  void (*forward_tile)(const AttentionForwardTile& tile);
  void (*backward_tile)(const AttentionBackwardTile& tile);
};
extern const AttentionTileKernels kAttentionAmx;

}  // namespace gpt
