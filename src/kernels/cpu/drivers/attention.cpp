#ifdef GPT_HAVE_SIMD
#include "kernels/cpu/drivers/attention.h"

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/cpu/ref/ref.h"

namespace gpt {
namespace {

// What one task computes: some queries of one sequence, with all query heads of some key/value heads.
struct ForwardPart {
  int64_t first_query, queries;
  int64_t first_head, heads;
};

// Rows are in order (query, head of the group), so positions never decrease; the state of one key/value
// head follows that of the one before.
class ForwardTask {
 public:
  ForwardTask(const AttentionKernels& kernels, const AttentionTiles& tiles, const AttentionArgs& a,
              const AttentionSeq& seq, const ForwardPart& part, std::byte* scratch)
      : kernels_(kernels),
        tiles_(tiles),
        a_(a),
        s_(a.shape),
        seq_(seq),
        part_(part),
        pieces_(scratch),
        m_(a.shape, pieces_) {}

  void run() {
    for (int64_t h = 0; h < part_.heads; ++h)
      start(h);
    const int64_t from = visible_keys(s_, seq_, part_.first_query).begin;
    const int64_t to = visible_keys(s_, seq_, part_.first_query + part_.queries - 1).end;
    const int64_t first = from / kKeyTile * kKeyTile;
    tile_rows(s_, seq_, first, from, to, m_.rows);
    for (int64_t tile = first; tile < to; tile += kKeyTile) {
      tile_rows(s_, seq_, tile + kKeyTile, from, to, m_.next_rows);
      set_ranges(tile);
      for (int64_t h = 0; h < part_.heads; ++h)
        add_tile(h, tile);
      std::swap(m_.rows, m_.next_rows);
    }
    for (int64_t h = 0; h < part_.heads; ++h)
      finish(h);
  }

 private:
  int64_t group() const { return group_size(s_); }
  int64_t rows() const { return part_.queries * group(); }  // of one key/value head
  int64_t padded() const { return (s_.head_dim + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes; }
  int64_t first_row() const { return seq_.q_start + part_.first_query; }
  int64_t query_head(int64_t h) const { return (part_.first_head + h) * group(); }

  // A single query, shared by too few heads for packing keys to pay.
  bool in_place() const {
    return tiles_.decode_tile != nullptr && part_.queries == 1 && group() <= kInPlaceRows;
  }

  float* q(int64_t h) const { return m_.q + h * rows() * padded(); }
  float* max(int64_t h) const { return m_.max + h * rows(); }
  float* sum(int64_t h) const { return m_.sum + h * rows() * kernels_.lanes; }
  float* out(int64_t h) const { return m_.out + h * rows() * padded(); }

  void start(int64_t h) {
    for (int64_t g = 0; g < group(); ++g) {
      const void* from = element(a_.q, first_row(), (query_head(h) + g) * s_.head_dim);
      const PackRows rows = {stored(a_.q), from, a_.q.ld, nullptr, part_.queries, s_.head_dim};
      std::byte* to = reinterpret_cast<std::byte*>(q(h)) + g * padded() * tiles_.element;
      tiles_.pack_a(rows, to, group() * padded());
    }
    std::fill_n(max(h), rows(), std::numeric_limits<float>::lowest());
    std::fill_n(sum(h), rows() * kernels_.lanes, 0.0f);
    std::fill_n(out(h), rows() * padded(), 0.0f);
  }

  void set_ranges(int64_t tile) {
    for (int64_t r = 0; r < rows(); ++r) {
      const TileRange range = tile_range(s_, seq_, part_.first_query + r / group(), tile);
      m_.begin[r] = range.begin;
      m_.end[r] = range.end;
    }
  }

  PackRows slice(const TensorView& from, int64_t h) const {
    const int64_t d = s_.head_dim, column = (part_.first_head + h) * d;
    const bool last = h + 1 == part_.heads;  // then the next tile follows, from the first head on
    return {stored(from),
            element(from, 0, column),
            from.ld,
            m_.rows,
            kKeyTile,
            d,
            last ? m_.next_rows : m_.rows,
            last ? -h * d : d};
  }

  // The scales of the tile's keys or values; null when there are none.
  const float* scales(const TensorView& from, int64_t h, float* to) const {
    if (!from) return nullptr;
    for (int64_t t = 0; t < kKeyTile; ++t)
      to[t] = m_.rows[t] < 0 ? 0 : from.row<float>(m_.rows[t])[part_.first_head + h];
    return to;
  }

  void add_tile(int64_t h, int64_t tile) {
    for (int64_t r = 0; m_.keep != nullptr && r < rows(); ++r) {
      tile_factors(kernels_, s_, first_row() + r / group(), query_head(h) + r % group(), tile,
                   m_.keep + r * kKeyTile);
    }
    const AttentionForwardTile t = {.rows = rows(),
                                    .d = s_.head_dim,
                                    .dp = padded(),
                                    .scale = static_cast<float>(s_.scale * kLog2E),
                                    .q = q(h),
                                    .kt = m_.kt,
                                    .v = m_.v,
                                    .k_scale = scales(a_.k_scale, h, m_.k_scale),
                                    .v_scale = scales(a_.v_scale, h, m_.v_scale),
                                    .begin = m_.begin,
                                    .end = m_.end,
                                    .keep = m_.keep,
                                    .max = max(h),
                                    .sum = sum(h),
                                    .out = out(h)};
    if (in_place()) {
      tiles_.decode_tile(t, slice(a_.k, h), slice(a_.v, h), m_.kt);
    } else {
      tiles_.pack_b_transposed(slice(a_.k, h), m_.kt);
      tiles_.pack_b(slice(a_.v, h), m_.v, padded());
      tiles_.forward_tile(t);
    }
  }

  void finish(int64_t h) {
    void* to = element(a_.out, first_row(), query_head(h) * s_.head_dim);
    kernels_.finish(
        {rows(), s_.head_dim, padded(), group(), sum(h), out(h), stored(a_.out), to, a_.out.ld, m_.total});
    for (int64_t r = 0; a_.lse && r < rows(); ++r) {
      a_.lse.row<float>(first_row() + r / group())[query_head(h) + r % group()] =
          static_cast<float>(kLn2) * (max(h)[r] + std::log2(m_.total[r]));
    }
  }

  static constexpr int64_t kInPlaceRows = 12;

  const AttentionKernels& kernels_;
  const AttentionTiles& tiles_;
  const AttentionArgs& a_;
  const AttentionShape& s_;
  const AttentionSeq& seq_;
  const ForwardPart part_;
  ScratchPieces pieces_;
  ForwardScratch m_;
};

int64_t parts(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

// The tasks of a call; no bit of the result depends on them.
struct ForwardGrid {
  int64_t queries, heads;  // per task
  int64_t query_parts, head_parts;

  ForwardGrid(const AttentionArgs& a, int64_t longest, int threads) {
    const int64_t group = group_size(a.shape);
    const auto n_seq = static_cast<int64_t>(a.seqs.size());
    const int64_t enough = 4 * threads;
    queries = std::max<int64_t>(1, std::min(longest, kQueryRows / group));
    while (queries * group > kQueryRows / 4 && queries > 1 &&
           n_seq * a.shape.n_kv_head * parts(longest, queries) < enough) {
      queries = (queries + 1) / 2;
    }
    query_parts = parts(longest, queries);
    // Few rows per head: a task takes several neighbouring heads, because decoding reaches the bandwidth of
    // memory only with longer reads from every cache row.
    heads = std::clamp<int64_t>(kDecodeRows / (queries * group), 1, a.shape.n_kv_head);
    while (heads > 1 && n_seq * query_parts * parts(a.shape.n_kv_head, heads) < 2 * threads)
      --heads;
    head_parts = parts(a.shape.n_kv_head, heads);
  }

  static constexpr int64_t kDecodeRows = 32;
};

}  // namespace

AttentionTiles attention_tiles(Isa isa, bool bf16, bool training, int64_t head_dim) {
  if (isa < Isa::avx512bf16 || !bf16) return isa == Isa::avx2 ? kAttentionAvx2.fp32 : kAttentionAvx512.fp32;
  AttentionTiles tiles = kAttentionTilesBf16;
  if (isa >= Isa::amx && training && head_dim % kAmxWidth == 0) {
    tiles.forward_tile = kAttentionAmx.forward_tile;
    tiles.decode_tile = nullptr;
    tiles.backward_tile = kAttentionAmx.backward_tile;
  }
  return tiles;
}

// The reference is called for fp64, and for weights that are looked at.
ScratchNeed attention_scratch(const AttentionShape& shape, int64_t max_q, int64_t max_kv, bool backward,
                              DType dtype) {
  const ScratchNeed reference = ref::attention_scratch(shape, max_q, max_kv, backward, dtype);
  if (dtype == DType::f64) return reference;
  ScratchPieces pieces(nullptr);
  if (backward) {
    BackwardScratch(shape, max_q, pieces);
  } else {
    ForwardScratch(shape, pieces);
  }
  return max_need(reference, {.per_thread = pieces.bytes()});
}

template <Isa isa>
void attention_forward(const ExecContext& ctx, const AttentionArgs& a) noexcept {
  if (a.q.dtype == DType::f64) return ref::attention_forward(ctx, a);
  const LongestSeq longest = longest_of(a.shape, a.seqs);
  ctx.scratch.require(attention_scratch(a.shape, longest.q, longest.kv, false, a.q.dtype));
  if (a.weights) ref::attention_forward(ctx, a);
  const AttentionKernels& kernels = isa == Isa::avx2 ? kAttentionAvx2 : kAttentionAvx512;
  const bool bf16 = a.q.dtype == DType::bf16 && a.k.dtype == DType::bf16;
  const AttentionTiles tiles = attention_tiles(isa, bf16, bool(a.lse), a.shape.head_dim);
  const ForwardGrid grid(a, longest.q, ctx.pool.size());
  const int64_t columns = static_cast<int64_t>(a.seqs.size()) * grid.head_parts;
  ctx.pool.parallel_for(columns * grid.query_parts, [&](int64_t task, int thread) {
    // The last queries see the most keys: they go first, so that the threads end together.
    const AttentionSeq& seq = a.seqs[static_cast<size_t>(task % columns / grid.head_parts)];
    const int64_t query = (grid.query_parts - 1 - task / columns) * grid.queries;
    const int64_t head = task % grid.head_parts * grid.heads;
    if (query >= seq.q_len) return;
    const ForwardPart part = {query, std::min(grid.queries, seq.q_len - query), head,
                              std::min(grid.heads, a.shape.n_kv_head - head)};
    ForwardTask(kernels, tiles, a, seq, part, ctx.scratch.thread<std::byte>(thread)).run();
  });
}

template void attention_forward<Isa::avx2>(const ExecContext& ctx, const AttentionArgs& a) noexcept;
template void attention_forward<Isa::avx512>(const ExecContext& ctx, const AttentionArgs& a) noexcept;
template void attention_forward<Isa::avx512bf16>(const ExecContext& ctx, const AttentionArgs& a) noexcept;
template void attention_forward<Isa::amx>(const ExecContext& ctx, const AttentionArgs& a) noexcept;

}  // namespace gpt
#endif
