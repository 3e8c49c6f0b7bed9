#pragma once

// Declares the drivers of fused attention, the layout of their scratch memory, and functions that map tiles
// of keys to rows of k and v.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/attention_util.h"
#include "kernels/cpu/simd/attention_kernels.h"
#include "kernels/kernel_table.h"

namespace gpt {

// Computes fused attention on tiles of keys, so that only one tile of the [q,kv] matrix of attention weights
// is stored at a time. Arithmetic is in fp32 for activations of any dtype, except that AVX512_BF16 multiplies
// bf16 activations in bf16. Calls with fp64 views run the reference. If `weights` is requested, the reference
// computes the attention weights; the bits of out and lse do not change. The template is instantiated for all
// instruction sets except ref.
template <Isa isa>
void attention_forward(const ExecContext& ctx, const AttentionArgs& a) noexcept;

// Computes the backward pass with one task for each sequence and key/value head, so that each row of dk and
// dv is written by a single task.
template <Isa isa>
void attention_backward(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept;

ScratchNeed attention_scratch(const AttentionShape& shape, int64_t max_q, int64_t max_kv, bool backward,
                              DType dtype);

// Returns the tile kernels for an attention call. Training uses AMX tiles for bf16 operands if the CPU has
// AMX. Inference never uses AMX tiles, because AMX adds products in a different order than the decode kernel,
// and prefill and decoding must give bit-identical results.
AttentionTiles attention_tiles(Isa isa, bool bf16, bool training, int64_t head_dim);

// Number of query rows per task of the forward pass. Each query head of a group counts as a separate row.
// With this many rows, packing a tile of keys takes only a few percent of the time of the matrix products.
inline constexpr int64_t kQueryRows = 128;

// Sums over keys are computed in segments of kSegmentKeys keys, and the sums of the segments are added in
// order. Segments can therefore run as separate tasks without changing the bits of the result.
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

// The kernels compute softmax with powers of 2 instead of e.
inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

// Returns the Stored value for the dtype of a view.
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

// Returns the address of element (r,c) of a view of any dtype. For quantized dtypes, (r,c) must be the first
// element of a quantization block.
inline std::byte* element_address(const TensorView& v, int64_t r, int64_t c) {
  return static_cast<std::byte*>(v.data) + row_bytes(v.dtype, r * v.ld + c);
}

// Splits scratch memory into pieces. Each piece is 64-byte aligned if the base address is. If the base is
// null, ScratchPieces only counts the bytes.
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

// The partial softmax of some query rows of one key/value head over a subset of the keys. Exponents are to
// base 2.
struct RowSums {
  float* max;  // [rows]
  float* sum;  // [rows,lanes]: denominators
  float* out;  // [rows,dp]: numerators

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
  float *kt, *vt, *k, *p, *ds, *dk, *dv, *lse, *keep;  // buffers of one tile
  float *q, *dout, *delta, *dq;                        // buffers of all queries of a key/value head
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

// Computes the indices of the rows of k and v that store keys [first, first + kKeyTile) of a sequence. The
// index is -1 for keys outside of [from, to), which are not read.
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

// Returns the range of keys in the tile at `first` that query i attends to, relative to the start of the
// tile. Empty ranges are clamped to the tile, so the bounds never decrease from one query to the next.
struct TileRange {
  int32_t begin, end;
};
inline TileRange tile_range(const AttentionShape& s, const AttentionSeq& seq, int64_t i, int64_t first) {
  const KeyRange range = visible_keys(s, seq, i);
  return {static_cast<int32_t>(std::clamp<int64_t>(range.begin - first, 0, kKeyTile)),
          static_cast<int32_t>(std::clamp<int64_t>(range.end - first, 0, kKeyTile))};
}

// Computes the dropout factors of one row of attention weights for the tile of keys at `first`.
inline void tile_factors(const AttentionKernels& kernels, const AttentionShape& s, uint64_t key, int64_t row,
                         int64_t head, int64_t first, float* factors) {
  const auto element = static_cast<uint64_t>(attention_element(s, row, head, first));
  kernels.dropout_factors(key, element, kKeyTile, dropout_threshold(s),
                          static_cast<float>(1 / (1 - s.dropout.p)), factors);
}

}  // namespace gpt
