#ifdef GPT_HAVE_SIMD
#include "kernels/cpu/drivers/attention.h"
#include "kernels/cpu/drivers/attention_tiles.h"
#include "kernels/cpu/ref/ref.h"

namespace gpt {
namespace {

// One task of the backward pass: one sequence and one key/value head. Tiles of keys outside, tiles of
// queries inside; dk and dv of a tile, and dq of all queries, are summed in scratch.
class BackwardTask {
 public:
  BackwardTask(const AttentionKernels& kernels, const AttentionTiles& tiles, const AttentionBackwardArgs& a,
               const AttentionSeq& seq, std::byte* scratch)
      : kernels_(kernels),
        tiles_(tiles),
        a_(a),
        s_(a.shape),
        seq_(seq),
        pieces_(scratch),
        m_(a.shape, seq.q_len, pieces_) {}

  void run(int64_t kv_head) {
    kv_head_ = kv_head;
    compute_delta();
    for (int64_t tile = 0; tile < seq_.kv_len; tile += kKeyTile)
      key_tile(tile);
    for (int64_t g = 0; g < group(); ++g) {
      kernels_.unpack({stored(a_.dq), element(a_.dq, seq_.q_start, column(kv_head_ * group() + g)), a_.dq.ld,
                       nullptr, seq_.q_len, s_.head_dim, dq(g, 0), padded(), static_cast<float>(s_.scale)});
    }
  }

 private:
  int64_t group() const { return group_size(s_); }
  int64_t padded() const { return (s_.head_dim + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes; }
  int64_t column(int64_t head) const { return head * s_.head_dim; }
  float* dq(int64_t g, int64_t i) const { return m_.dq + (g * seq_.q_len + i) * padded(); }

  // Row `first` and the n - 1 after it of a head.
  PackRows queries(const TensorView& v, int64_t first, int64_t n, int64_t head) const {
    return {stored(v), element(v, first, column(head)), v.ld, nullptr, n, s_.head_dim};
  }
  PackRows keys(const TensorView& v) const {
    return {stored(v), element(v, 0, column(kv_head_)), v.ld, m_.rows, kKeyTile, s_.head_dim};
  }

  void compute_delta() {
    for (int64_t g = 0; g < group(); ++g) {
      const int64_t at = column(kv_head_ * group() + g);
      for (int64_t i = 0; i < seq_.q_len; ++i) {
        const int64_t row = seq_.q_start + i;
        m_.delta[g * seq_.q_len + i] =
            kernels_.dot(stored(a_.out), element(a_.dout, row, at), element(a_.out, row, at), s_.head_dim);
      }
    }
  }

  void key_tile(int64_t tile) {
    tile_rows(s_, seq_, tile, 0, seq_.kv_len, m_.rows);
    tiles_.pack_transposed(keys(a_.k), m_.kt);
    tiles_.pack_transposed(keys(a_.v), m_.vt);
    tiles_.pack_summed(keys(a_.k), m_.k, padded());
    std::fill_n(m_.dk, kKeyTile * padded(), 0.0f);
    std::fill_n(m_.dv, kKeyTile * padded(), 0.0f);
    for (int64_t g = 0; g < group(); ++g) {
      for (int64_t i = 0; i < seq_.q_len; i += kKeyTile) {
        query_tile(tile, kv_head_ * group() + g, i, std::min(kKeyTile, seq_.q_len - i));
      }
    }
    const int64_t n = std::min(kKeyTile, seq_.kv_len - tile);
    unpack_keys(m_.dk, n, s_.scale, a_.dk);
    unpack_keys(m_.dv, n, 1, a_.dv);
  }

  void unpack_keys(const float* from, int64_t n, double scale, const TensorView& to) const {
    kernels_.unpack({stored(to), element(to, 0, column(kv_head_)), to.ld, m_.rows, n, s_.head_dim, from,
                     padded(), static_cast<float>(scale)});
  }

  // What pack_rows made of the same rows, where that serves as well.
  const float* summed(const PackRows& src, const float* rows, float* scratch) const {
    if (tiles_.pack_rows == tiles_.pack_summed) return rows;
    tiles_.pack_summed(src, scratch, padded());
    return scratch;
  }

  // Queries [first, first + n) of a head against the packed keys.
  void query_tile(int64_t tile, int64_t head, int64_t first, int64_t n) {
    const KeyRange oldest = visible_keys(s_, seq_, first);
    const KeyRange newest = visible_keys(s_, seq_, first + n - 1);
    if (newest.end <= tile || oldest.begin >= tile + kKeyTile) return;
    const int64_t row = seq_.q_start + first;
    const PackRows q = queries(a_.q, row, n, head), dout = queries(a_.dout, row, n, head);
    tiles_.pack_rows(q, m_.q, padded());
    tiles_.pack_rows(dout, m_.dout, padded());
    for (int64_t r = 0; r < n; ++r) {
      const TileRange range = tile_range(s_, seq_, first + r, tile);
      m_.begin[r] = range.begin;
      m_.end[r] = range.end;
      m_.lse[r] = a_.lse.row<float>(row + r)[head] * static_cast<float>(kLog2E);
      if (m_.keep != nullptr) tile_factors(kernels_, s_, row + r, head, tile, m_.keep + r * kKeyTile);
    }
    const int64_t g = head - kv_head_ * group();
    tiles_.backward_tile({.rows = n,
                          .d = s_.head_dim,
                          .dp = padded(),
                          .scale = static_cast<float>(s_.scale * kLog2E),
                          .q = m_.q,
                          .dout = m_.dout,
                          .q_summed = summed(q, m_.q, m_.q_summed),
                          .dout_summed = summed(dout, m_.dout, m_.dout_summed),
                          .kt = m_.kt,
                          .vt = m_.vt,
                          .k = m_.k,
                          .begin = m_.begin,
                          .end = m_.end,
                          .lse = m_.lse,
                          .delta = m_.delta + g * seq_.q_len + first,
                          .keep = m_.keep,
                          .p = m_.p,
                          .ds = m_.ds,
                          .dk = m_.dk,
                          .dv = m_.dv,
                          .dq = dq(g, first),
                          .first = oldest.begin / kKeyTile * kKeyTile == tile});
  }

  const AttentionKernels& kernels_;
  const AttentionTiles& tiles_;
  const AttentionBackwardArgs& a_;
  const AttentionShape& s_;
  const AttentionSeq& seq_;
  ScratchPieces pieces_;
  BackwardScratch m_;
  int64_t kv_head_ = 0;
};

}  // namespace

template <Isa isa>
void attention_backward(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept {
  if (a.q.dtype == DType::f64) return ref::attention_backward(ctx, a);
  const AttentionKernels& kernels = isa == Isa::avx2 ? kAttentionAvx2 : kAttentionAvx512;
  const bool pairs = isa == Isa::avx512bf16 && a.q.dtype == DType::bf16;
  const AttentionTiles& tiles = pairs ? kAttentionTilesBf16 : kernels.fp32;
  const int64_t heads = a.shape.n_kv_head;
  ctx.pool.parallel_for(static_cast<int64_t>(a.seqs.size()) * heads, [&](int64_t task, int thread) {
    BackwardTask(kernels, tiles, a, a.seqs[static_cast<size_t>(task / heads)],
                 ctx.scratch.thread<std::byte>(thread))
        .run(task % heads);
  });
}

template void attention_backward<Isa::avx2>(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept;
template void attention_backward<Isa::avx512>(const ExecContext& ctx,
                                              const AttentionBackwardArgs& a) noexcept;
template void attention_backward<Isa::avx512bf16>(const ExecContext& ctx,
                                                  const AttentionBackwardArgs& a) noexcept;

}  // namespace gpt
#endif
