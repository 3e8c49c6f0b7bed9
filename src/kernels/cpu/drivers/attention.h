#pragma once

// The drivers of fused attention, and what they share: the layout of scratch and the rows of a tile.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_util.h"
#include "kernels/cpu/simd/attention_kernels.h"
#include "kernels/kernel_table.h"

namespace gpt {

// Fused attention on tiles of keys that never holds more than a tile of the [q,kv] weights. Arithmetic in
// fp32 on activations of any type, but with AVX512_BF16 products of bf16 activations in bf16; fp64 goes to
// the reference. With `weights` the reference fills those, and out and lse are the same bits as without.
// Defined for all but ref.
template <Isa isa>
void attention_forward(const ExecContext& ctx, const AttentionArgs& a) noexcept;

// One task per sequence and key/value head, so that dk and dv have one writer.
template <Isa isa>
void attention_backward(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept;

ScratchNeed attention_scratch(const AttentionShape& shape, int64_t max_q, int64_t max_kv, bool backward,
                              DType dtype);

// The tiles for queries and keys of a call. In training bf16 operands go through tile registers where there
// are any; their sums have another order than the tile that reads single queries in place, which inference
// needs the bits of.
AttentionTiles attention_tiles(Isa isa, bool bf16, bool training, int64_t head_dim);

// Query rows of a forward task, all heads of a group counted: packing a tile of keys is then a few percent of
// its products.
inline constexpr int64_t kQueryRows = 128;

// Keys are summed up in segments that begin at multiples of this, and then segments in their order. So the
// segments of a few queries can be tasks, and the bits know nothing of it.
inline constexpr int64_t kSegmentKeys = 2048;

inline int64_t round_to_16(int64_t n) {
  return (n + 15) / 16 * 16;
}

inline int64_t round_to_32(int64_t n) {
  return (n + 31) / 32 * 32;
}

inline int64_t group_size(const AttentionShape& s) {
  return s.n_head / s.n_kv_head;
}

inline uint32_t dropout_threshold(const AttentionShape& s) {
  return static_cast<uint32_t>(s.dropout.p * 0x1p32);
}

// Scores are powers of two inside the kernels.
inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

// How the kernels call the type of a view.
inline Stored stored(const TensorView& v) {
  switch (v.dtype) {
    case DType::bf16:
      return Stored::bf16;
    case DType::f16:
      return Stored::f16;
    case DType::i8:
      return Stored::i8;
    case DType::q4_0:
      return Stored::q4_0;
    default:
      return Stored::f32;
  }
}

// The address of element (r,c), the first of a block, whatever the type.
inline std::byte* element_address(const TensorView& v, int64_t r, int64_t c) {
  return static_cast<std::byte*>(v.data) + row_bytes(v.dtype, r * v.ld + c);
}

// Parts of scratch memory, each 64-byte aligned when the whole is. Without memory it only counts their bytes.
class ScratchPieces {
 public:
  explicit ScratchPieces(std::byte* base) : base_(base) {}
  template <class T = float>
  T* take(int64_t n) {
    std::byte* piece = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += (n * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

// The softmax of some query rows of one key/value head over some of the keys, in powers of two.
struct RowSums {
  float* max;  // [rows]
  float* sum;  // [rows,lanes], denominators
  float* out;  // [rows,dp], numerators

  RowSums(int64_t rows, int64_t head_dim, ScratchPieces& pieces)
      : max(pieces.take(rows)), sum(pieces.take(rows * 16)), out(pieces.take(rows * round_to_16(head_dim))) {}
};

struct ForwardScratch {
  float *q, *kt, *v, *keep, *total, *k_scale, *v_scale;
  RowSums all, segment;
  int32_t *begin, *end;
  int64_t *rows, *next_rows;

  ForwardScratch(const AttentionShape& s, ScratchPieces& pieces)
      : all(most_rows(s), s.head_dim, pieces), segment(most_rows(s), s.head_dim, pieces) {
    const int64_t rows_max = most_rows(s);
    const int64_t dp = round_to_16(s.head_dim);
    q = pieces.take(rows_max * dp);
    kt = pieces.take(s.head_dim * kKeyTile);
    v = pieces.take(kKeyTile * dp);
    total = pieces.take(rows_max);
    k_scale = pieces.take(kKeyTile);
    v_scale = pieces.take(kKeyTile);
    begin = pieces.take<int32_t>(rows_max);
    end = pieces.take<int32_t>(rows_max);
    rows = pieces.take<int64_t>(kKeyTile);
    next_rows = pieces.take<int64_t>(kKeyTile);
    keep = dropout_threshold(s) > 0 ? pieces.take(rows_max * kKeyTile) : nullptr;
  }

 private:
  static int64_t most_rows(const AttentionShape& s) { return std::max(kQueryRows, group_size(s)); }
};

struct BackwardScratch {
  float *kt, *vt, *k, *p, *ds, *dk, *dv, *lse, *keep;  // of one tile
  float *q, *dout, *delta, *dq;                        // of all queries of a key/value head
  int32_t *begin, *end;
  int64_t *rows, *next_rows;

  BackwardScratch(const AttentionShape& s, int64_t q_len, ScratchPieces& pieces) {
    const int64_t dp = round_to_16(s.head_dim);
    const int64_t queries = group_size(s) * round_to_32(q_len);
    for (float** tile : {&k, &dk, &dv, &kt, &vt})
      *tile = pieces.take(kKeyTile * dp);
    for (float** tile : {&p, &ds})
      *tile = pieces.take(kKeyTile * kKeyTile);
    begin = pieces.take<int32_t>(kKeyTile);
    end = pieces.take<int32_t>(kKeyTile);
    rows = pieces.take<int64_t>(kKeyTile);
    next_rows = pieces.take<int64_t>(kKeyTile);
    keep = dropout_threshold(s) > 0 ? pieces.take(kKeyTile * kKeyTile) : nullptr;
    lse = pieces.take(kKeyTile);
    for (float** all : {&q, &dout, &dq})
      *all = pieces.take(queries * dp);
    delta = pieces.take(queries);
  }
};

// The rows of keys [first, first + kKeyTile) of a sequence; -1 for those outside of [from, to), which are
// not read.
inline void tile_rows(const AttentionShape& s, const AttentionSeq& seq, const int32_t* pages, int64_t first,
                      int64_t from, int64_t to, int64_t* rows) {
  const int64_t begin = std::max(first, from);
  const int64_t end = std::max(begin, std::min(first + kKeyTile, to));
  std::fill(rows, rows + (begin - first), int64_t{-1});
  for (int64_t t = begin; t < end;) {
    const int64_t stop = pages == nullptr ? end : std::min(end, (t / s.page_size + 1) * s.page_size);
    for (int64_t row = kv_row(s, seq, pages, t); t < stop; ++t)
      rows[t - first] = row++;
  }
  std::fill(rows + (end - first), rows + kKeyTile, int64_t{-1});
}

// The part of the tile at `first` that query i sees, relative to the tile; empty ranges keep the order of
// the others.
struct TileRange {
  int32_t begin, end;
};
inline TileRange tile_range(const AttentionShape& s, const AttentionSeq& seq, int64_t i, int64_t first) {
  const KeyRange range = visible_keys(s, seq, i);
  return {static_cast<int32_t>(std::clamp<int64_t>(range.begin - first, 0, kKeyTile)),
          static_cast<int32_t>(std::clamp<int64_t>(range.end - first, 0, kKeyTile))};
}

// Dropout factors of one row of weights for the tile of keys at `first`.
inline void tile_factors(const AttentionKernels& kernels, const AttentionShape& s, uint64_t key, int64_t row,
                         int64_t head, int64_t first, float* factors) {
  const auto element = static_cast<uint64_t>(attention_element(s, row, head, first));
  kernels.dropout_factors(key, element, kKeyTile, dropout_threshold(s),
                          static_cast<float>(1 / (1 - s.dropout.p)), factors);
}

}  // namespace gpt
