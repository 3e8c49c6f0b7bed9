#ifdef GPT_HAVE_SIMD
#include "kernels/cpu/drivers/attention.h"

#include <utility>

#include "kernels/cpu/ref/ref.h"

namespace gpt {
namespace {

// Computes one task of the attention backward pass, which covers one sequence and one key/value head. The
// task first packs all queries. Then it loops over tiles of keys and, for each of them, over tiles of
// queries. dk and dv of a tile of keys, and dq of all queries, are accumulated in scratch memory.
class BackwardTask {
 public:
  BackwardTask(const AttentionKernels& kernels, const AttentionTiles& tiles, const AttentionBackwardArgs& a,
               const AttentionSeq& seq, std::byte* scratch)
      : kernels_(kernels),
        tiles_(tiles),
        a_(a),
        s_(a.shape),
        seq_(seq),
        dropout_key_(s_.dropout.p > 0 ? key_of(s_.dropout) : 0),
        pieces_(scratch),
        m_(a.shape, seq.q_len, pieces_) {}

  void run(int64_t kv_head) {
    kv_head_ = kv_head;
    for (int64_t g = 0; g < group(); ++g)
      pack_queries(g);
    tile_rows(s_, seq_, nullptr, 0, 0, seq_.kv_len, m_.rows);
    for (int64_t tile = 0; tile < seq_.kv_len; tile += kKeyTile) {
      tile_rows(s_, seq_, nullptr, tile + kKeyTile, 0, seq_.kv_len, m_.next_rows);
      key_tile(tile);
      std::swap(m_.rows, m_.next_rows);
    }
    for (int64_t g = 0; g < group(); ++g) {
      const int64_t column = query_head(g) * s_.head_dim;
      kernels_.unpack({stored(a_.dq), element_address(a_.dq, seq_.q_start, column), a_.dq.ld, nullptr,
                       seq_.q_len, s_.head_dim, m_.dq + packed_row(g, 0) * padded(), padded(),
                       static_cast<float>(s_.scale)});
    }
  }

 private:
  int64_t group() const { return group_size(s_); }
  int64_t padded() const { return (s_.head_dim + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes; }
  int64_t query_head(int64_t g) const { return kv_head_ * group() + g; }
  int64_t packed_row(int64_t g, int64_t i) const { return g * round_to_32(seq_.q_len) + i; }

  // Return a pointer to row i of query head g in `packed`, packed as operand A or as operand B of a matrix
  // product. If the two layouts differ, all rows packed as operand B are stored after all rows packed as
  // operand A.
  std::byte* rows_at(float* packed, int64_t g, int64_t i) const {
    return reinterpret_cast<std::byte*>(packed) + packed_row(g, i) * padded() * tiles_.element;
  }
  std::byte* b_at(float* packed, int64_t g, int64_t i) const {
    return rows_at(packed, packs_b() ? group() + g : g, i);
  }
  bool packs_b() const { return tiles_.pack_a != tiles_.pack_b; }

  void pack_queries(int64_t g) {
    const auto rows = [&](const TensorView& v) {
      return PackRows{stored(v),  element_address(v, seq_.q_start, query_head(g) * s_.head_dim),
                      v.ld,       nullptr,
                      seq_.q_len, s_.head_dim};
    };
    for (const auto& [view, packed] : {std::pair(&a_.q, m_.q), std::pair(&a_.dout, m_.dout)}) {
      tiles_.pack_a(rows(*view), rows_at(packed, g, 0), padded());
      if (packs_b()) pack_b(rows(*view), b_at(packed, g, 0));
    }
    kernels_.dots(rows(a_.dout), rows(a_.out), m_.delta + packed_row(g, 0));
  }

  // Packs rows as k-packs of two rows, and fills the rest of the last tile with zeros.
  void pack_b(const PackRows& rows, std::byte* to) const {
    tiles_.pack_b(rows, to, padded());
    const int64_t bytes = 2 * padded() * tiles_.element;
    std::fill(to + (rows.n + 1) / 2 * bytes, to + round_to_32(rows.n) / 2 * bytes, std::byte{0});
  }

  PackRows keys(const TensorView& v) const {
    return {stored(v),   element_address(v, 0, kv_head_ * s_.head_dim), v.ld, m_.rows, kKeyTile, s_.head_dim,
            m_.next_rows};
  }

  void key_tile(int64_t tile) {
    tiles_.pack_b_transposed(keys(a_.k), m_.kt);
    tiles_.pack_b_transposed(keys(a_.v), m_.vt);
    tiles_.pack_b(keys(a_.k), m_.k, padded());
    std::fill_n(m_.dk, kKeyTile * padded(), 0.0f);
    std::fill_n(m_.dv, kKeyTile * padded(), 0.0f);
    for (int64_t g = 0; g < group(); ++g) {
      for (int64_t i = 0; i < seq_.q_len; i += kKeyTile)
        query_tile(tile, g, i, std::min(kKeyTile, seq_.q_len - i));
    }
    const int64_t n = std::min(kKeyTile, seq_.kv_len - tile);
    unpack_keys(m_.dk, n, s_.scale, a_.dk);
    unpack_keys(m_.dv, n, 1, a_.dv);
  }

  void unpack_keys(const float* from, int64_t n, double scale, const TensorView& to) const {
    kernels_.unpack({stored(to), element_address(to, 0, kv_head_ * s_.head_dim), to.ld, m_.rows, n,
                     s_.head_dim, from, padded(), static_cast<float>(scale)});
  }

  // Processes queries [first, first + n) of head g against the packed tile of keys.
  void query_tile(int64_t tile, int64_t g, int64_t first, int64_t n) {
    const KeyRange oldest = visible_keys(s_, seq_, first);
    const KeyRange newest = visible_keys(s_, seq_, first + n - 1);
    if (newest.end <= tile || oldest.begin >= tile + kKeyTile) return;
    for (int64_t r = 0; r < n; ++r) {
      const int64_t row = seq_.q_start + first + r;
      const TileRange range = tile_range(s_, seq_, first + r, tile);
      m_.begin[r] = range.begin;
      m_.end[r] = range.end;
      m_.lse[r] = a_.lse.row<float>(row)[query_head(g)] * static_cast<float>(kLog2E);
      if (m_.keep != nullptr) {
        tile_factors(kernels_, s_, dropout_key_, row, query_head(g), tile, m_.keep + r * kKeyTile);
      }
    }
    tiles_.backward_tile({.rows = n,
                          .d = s_.head_dim,
                          .dp = padded(),
                          .scale = static_cast<float>(s_.scale * kLog2E),
                          .q = rows_at(m_.q, g, first),
                          .dout = rows_at(m_.dout, g, first),
                          .q_b = b_at(m_.q, g, first),
                          .dout_b = b_at(m_.dout, g, first),
                          .kt = m_.kt,
                          .vt = m_.vt,
                          .k = m_.k,
                          .begin = m_.begin,
                          .end = m_.end,
                          .lse = m_.lse,
                          .delta = m_.delta + packed_row(g, first),
                          .keep = m_.keep,
                          .p = m_.p,
                          .ds = m_.ds,
                          .dk = m_.dk,
                          .dv = m_.dv,
                          .dq = m_.dq + packed_row(g, first) * padded(),
                          .first = oldest.begin / kKeyTile * kKeyTile == tile});
  }

  const AttentionKernels& kernels_;
  const AttentionTiles& tiles_;
  const AttentionBackwardArgs& a_;
  const AttentionShape& s_;
  const AttentionSeq& seq_;
  uint64_t dropout_key_;
  ScratchPieces pieces_;
  BackwardScratch m_;
  int64_t kv_head_ = 0;
};

}  // namespace

template <Isa isa>
void attention_backward(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept {
  if (a.q.dtype == DType::f64) return fall_back(ctx, "attention_backward", ref::attention_backward, a);
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(attention_scratch(a.shape, a.shape.max_q, most_visible_keys(a.shape),
                                                         true, a.q.dtype)));
  const AttentionKernels& kernels = isa == Isa::avx2 ? kAttentionAvx2 : kAttentionAvx512;
  const AttentionTiles tiles = attention_tiles(isa, a.q.dtype == DType::bf16, true, a.shape.head_dim);
  const int64_t heads = a.shape.n_kv_head;
  ctx.pool.parallel_for(static_cast<int64_t>(a.seqs.size()) * heads, [&](int64_t task, int thread) {
    BackwardTask(kernels, tiles, a, unwrap(a.seqs)[task / heads], ctx.scratch.thread<std::byte>(thread))
        .run(task % heads);
  });
}

template void attention_backward<Isa::avx2>(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept;
template void attention_backward<Isa::avx512>(const ExecContext& ctx,
                                              const AttentionBackwardArgs& a) noexcept;
template void attention_backward<Isa::avx512bf16>(const ExecContext& ctx,
                                                  const AttentionBackwardArgs& a) noexcept;
template void attention_backward<Isa::amx>(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept;

}  // namespace gpt
#endif
