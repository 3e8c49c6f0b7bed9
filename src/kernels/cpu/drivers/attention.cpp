#ifdef GPT_HAVE_SIMD
#include "kernels/cpu/drivers/attention.h"

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/cpu/ref/ref.h"

namespace gpt {
namespace {

// The part of an attention forward pass that one task computes. A part consists of some queries of one
// sequence, with all query heads of some key/value heads.
struct ForwardPart {
  int64_t first_query, queries;
  int64_t first_head, heads;
};

// Computes one task of the attention forward pass. Rows are ordered by query first and by query head second,
// so the positions of consecutive rows never decrease. The scratch memory contains the state of each
// key/value head of the task, one head after another.
class ForwardTask {
 public:
  ForwardTask(const AttentionKernels& kernels, const AttentionTiles& tiles, const AttentionArgs& a,
              const AttentionSeq& seq, const ForwardPart& part, std::byte* scratch)
      : kernels_(kernels),
        tiles_(tiles),
        a_(a),
        s_(a.shape),
        seq_(seq),
        pages_(unwrap(a.pages)),
        dropout_key_(s_.dropout.p > 0 ? key_of(s_.dropout) : 0),
        part_(part),
        pieces_(scratch),
        m_(a.shape, pieces_) {}

  // Computes the attention outputs of the task over all keys.
  void run() {
    pack_queries();
    const KeyRange segments = segments_of(keys());
    for (int64_t segment = segments.begin; segment < segments.end; ++segment) {
      const bool first = segment == segments.begin;
      const auto sums = [&](int64_t h) { return of_head(first ? m_.all : m_.segment, h); };
      add_segment(segment, sums);
      for (int64_t h = 0; !first && h < part_.heads; ++h)
        merge(of_head(m_.all, h), of_head(m_.segment, h));
    }
    for (int64_t h = 0; h < part_.heads; ++h)
      finish(h, of_head(m_.all, h));
  }

  // Computes the sums of one segment of keys. Segment 0 is the first segment that contains visible keys.
  // After all segments have been computed, finish_segments() merges them.
  template <class SumsOf>
  void run_segment(int64_t segment, SumsOf sums_of) {
    const KeyRange segments = segments_of(keys());
    segment += segments.begin;
    if (segment >= segments.end) return;
    pack_queries();
    add_segment(segment, [&](int64_t h) { return sums_of(part_.first_head + h, segment - segments.begin); });
  }
  template <class SumsOf>
  void finish_segments(SumsOf sums_of) {
    const KeyRange segments = segments_of(keys());
    for (int64_t h = 0; h < part_.heads; ++h) {
      const RowSums all = sums_of(part_.first_head + h, 0);
      for (int64_t segment = 1; segment < segments.end - segments.begin; ++segment)
        merge(all, sums_of(part_.first_head + h, segment));
      finish(h, all);
    }
  }

 private:
  int64_t group() const { return group_size(s_); }
  int64_t rows() const { return part_.queries * group(); }  // rows of one key/value head
  int64_t padded() const { return (s_.head_dim + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes; }
  int64_t first_row() const { return seq_.q_start + part_.first_query; }
  int64_t query_head(int64_t h) const { return (part_.first_head + h) * group(); }

  // True for a single query with so few query heads per key/value head that packing the keys would cost more
  // than it saves.
  bool in_place() const {
    return tiles_.decode_tile != nullptr && part_.queries == 1 && group() <= kInPlaceRows;
  }

  float* q(int64_t h) const { return m_.q + h * rows() * padded(); }

  // Returns the range of keys that at least one query of the task attends to.
  KeyRange keys() const {
    return {visible_keys(s_, seq_, part_.first_query).begin,
            visible_keys(s_, seq_, part_.first_query + part_.queries - 1).end};
  }
  static KeyRange segments_of(const KeyRange& keys) {
    return {keys.begin / kSegmentKeys, (keys.end - 1) / kSegmentKeys + 1};
  }
  RowSums of_head(RowSums sums, int64_t h) const {
    sums.max += h * rows();
    sums.sum += h * rows() * kernels_.lanes;
    sums.out += h * rows() * padded();
    return sums;
  }

  void pack_queries() {
    for (int64_t h = 0; h < part_.heads; ++h) {
      for (int64_t g = 0; g < group(); ++g) {
        const void* from = element_address(a_.q, first_row(), (query_head(h) + g) * s_.head_dim);
        const PackRows rows = {stored(a_.q), from, a_.q.ld, nullptr, part_.queries, s_.head_dim};
        std::byte* to = reinterpret_cast<std::byte*>(q(h)) + g * padded() * tiles_.element;
        tiles_.pack_a(rows, to, group() * padded());
      }
    }
  }

  template <class SumsOf>
  void add_segment(int64_t segment, SumsOf sums_of) {
    for (int64_t h = 0; h < part_.heads; ++h)
      clear(sums_of(h));
    const auto [from, to] = keys();
    const int64_t end = std::min(to, (segment + 1) * kSegmentKeys);
    const int64_t first = std::max(from / kKeyTile * kKeyTile, segment * kSegmentKeys);
    tile_rows(s_, seq_, pages_, first, from, to, m_.rows);
    for (int64_t tile = first; tile < end; tile += kKeyTile) {
      tile_rows(s_, seq_, pages_, tile + kKeyTile, from, to, m_.next_rows);
      set_ranges(tile);
      for (int64_t h = 0; h < part_.heads; ++h)
        add_tile(h, tile, sums_of(h));
      std::swap(m_.rows, m_.next_rows);
    }
  }

  void clear(const RowSums& sums) const {
    std::fill_n(sums.max, rows(), std::numeric_limits<float>::lowest());
    std::fill_n(sums.sum, rows() * kernels_.lanes, 0.0f);
    std::fill_n(sums.out, rows() * padded(), 0.0f);
  }

  void merge(const RowSums& to, const RowSums& from) const {
    const auto add = [](float* sums, float factor, const float* more, float more_factor, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        sums[i] = sums[i] * factor + more[i] * more_factor;
    };
    for (int64_t r = 0; r < rows(); ++r) {
      const float max = std::max(to.max[r], from.max[r]);
      const float factor = std::exp2(to.max[r] - max), more_factor = std::exp2(from.max[r] - max);
      to.max[r] = max;
      const int64_t lanes = kernels_.lanes, dp = padded();
      add(to.sum + r * lanes, factor, from.sum + r * lanes, more_factor, lanes);
      add(to.out + r * dp, factor, from.out + r * dp, more_factor, dp);
    }
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
    const bool last = h + 1 == part_.heads;  // after the last head, the next rows to read belong to the next
                                             // tile and the first head
    return {stored(from),
            element_address(from, 0, column),
            from.ld,
            m_.rows,
            kKeyTile,
            d,
            last ? m_.next_rows : m_.rows,
            last ? -h * d : d};
  }

  // Copies the scales of the tile's keys or values to `to`. Returns null if there are no scales.
  const float* scales(const TensorView& from, int64_t h, float* to) const {
    if (!from) return nullptr;
    for (int64_t t = 0; t < kKeyTile; ++t)
      to[t] = m_.rows[t] < 0 ? 0 : from.row<float>(m_.rows[t])[part_.first_head + h];
    return to;
  }

  void add_tile(int64_t h, int64_t tile, const RowSums& sums) {
    for (int64_t r = 0; m_.keep != nullptr && r < rows(); ++r) {
      tile_factors(kernels_, s_, dropout_key_, first_row() + r / group(), query_head(h) + r % group(), tile,
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
                                    .max = sums.max,
                                    .sum = sums.sum,
                                    .out = sums.out};
    if (in_place()) {
      tiles_.decode_tile(t, slice(a_.k, h), slice(a_.v, h), m_.kt);
    } else {
      tiles_.pack_b_transposed(slice(a_.k, h), m_.kt);
      tiles_.pack_b(slice(a_.v, h), m_.v, padded());
      tiles_.forward_tile(t);
    }
  }

  void finish(int64_t h, const RowSums& sums) {
    void* to = element_address(a_.out, first_row(), query_head(h) * s_.head_dim);
    kernels_.finish({rows(), s_.head_dim, padded(), group(), sums.sum, sums.out, stored(a_.out), to,
                     a_.out.ld, m_.total});
    for (int64_t r = 0; a_.lse && r < rows(); ++r) {
      a_.lse.row<float>(first_row() + r / group())[query_head(h) + r % group()] =
          static_cast<float>(kLn2) * (sums.max[r] + std::log2(m_.total[r]));
    }
  }

  static constexpr int64_t kInPlaceRows = 12;

  const AttentionKernels& kernels_;
  const AttentionTiles& tiles_;
  const AttentionArgs& a_;
  const AttentionShape& s_;
  const AttentionSeq& seq_;
  const int32_t* pages_;
  uint64_t dropout_key_;
  const ForwardPart part_;
  ScratchPieces pieces_;
  ForwardScratch m_;
};

int64_t parts(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

// Returns the number of adjacent key/value heads that a task processes together. Decoding reaches the full
// memory bandwidth only if each read from a row of the KV cache is long enough.
int64_t heads_together(const AttentionShape& s, int64_t queries) {
  constexpr int64_t kDecodeRows = 32;
  return std::clamp<int64_t>(kDecodeRows / (queries * group_size(s)), 1, s.n_kv_head);
}

// Returns the maximum number of segments that a range of `keys` keys can overlap, given that a sliding window
// may start in the middle of a segment. Returns 1 if there are too few keys to split between tasks.
int64_t most_segments(int64_t keys) {
  return keys <= kSegmentKeys ? 1 : parts(keys, kSegmentKeys) + 1;
}

// Splits an attention call into tasks. The split does not affect the bits of the result.
struct ForwardGrid {
  int64_t queries, heads;  // number of queries and of key/value heads per task
  int64_t query_parts, head_parts;
  int64_t segments;  // number of segments of keys that run as separate tasks; 1: each task processes all keys

  ForwardGrid(const AttentionArgs& a, int threads) {
    const int64_t group = group_size(a.shape);
    const auto n_seq = static_cast<int64_t>(a.seqs.size());
    const int64_t max_q = a.shape.max_q;
    const int64_t enough = 4 * threads;
    queries = std::max<int64_t>(1, std::min(max_q, kQueryRows / group));
    while (queries * group > kQueryRows / 4 && queries > 1 &&
           n_seq * a.shape.n_kv_head * parts(max_q, queries) < enough) {
      queries = (queries + 1) / 2;
    }
    query_parts = parts(max_q, queries);
    heads = heads_together(a.shape, queries);
    const bool few_tasks = n_seq * parts(a.shape.n_kv_head, heads) < 2 * threads;
    segments = max_q == 1 && few_tasks ? most_segments(most_visible_keys(a.shape)) : 1;
    while (heads > 1 && n_seq * query_parts * segments * parts(a.shape.n_kv_head, heads) < 2 * threads)
      --heads;
    head_parts = parts(a.shape.n_kv_head, heads);
  }
};

// Stores the partial sums of key segments. Each segment runs as a separate task. The scratch memory of each
// thread holds some of these partial sums, after the memory of the task itself.
class SegmentSums {
 public:
  SegmentSums(const ExecContext& ctx, const AttentionShape& shape, int64_t segments)
      : ctx_(ctx), shape_(shape), segments_(segments), begin_(task_bytes(shape)), bytes_(one_bytes(shape)) {}

  RowSums at(int64_t seq, int64_t head, int64_t segment) const {
    const int64_t i = (seq * shape_.n_kv_head + head) * segments_ + segment, threads = ctx_.pool.size();
    auto* scratch = ctx_.scratch.thread<std::byte>(static_cast<int>(i % threads));
    ScratchPieces pieces(scratch + begin_ + i / threads * bytes_);
    return {group_size(shape_), shape_.head_dim, pieces};
  }

  // Returns the number of bytes per thread. Keys are only split into segments if the number of sequences
  // times the number of head groups is less than twice the number of threads.
  static int64_t bytes(const AttentionShape& shape, int64_t max_kv) {
    const int64_t segments = most_segments(max_kv);
    return segments == 1 ? 0 : 2 * heads_together(shape, 1) * segments * one_bytes(shape);
  }
  static int64_t task_bytes(const AttentionShape& shape) {
    ScratchPieces pieces(nullptr);
    ForwardScratch(shape, pieces);
    return pieces.bytes();
  }

 private:
  static int64_t one_bytes(const AttentionShape& shape) {
    ScratchPieces pieces(nullptr);
    RowSums(group_size(shape), shape.head_dim, pieces);
    return pieces.bytes();
  }

  const ExecContext& ctx_;
  const AttentionShape& shape_;
  int64_t segments_, begin_, bytes_;
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

// The memory is also sufficient for the reference implementation, which runs for fp64 and when the attention
// weights are requested.
ScratchNeed attention_scratch(const AttentionShape& shape, int64_t max_q, int64_t max_kv, bool backward,
                              DType dtype) {
  const ScratchNeed reference = ref::attention_scratch(shape, max_q, max_kv, backward, dtype);
  if (dtype == DType::f64) return reference;
  if (!backward)
    return max_need(reference,
                    {.per_thread = SegmentSums::task_bytes(shape) + SegmentSums::bytes(shape, max_kv)});
  ScratchPieces pieces(nullptr);
  BackwardScratch(shape, max_q, pieces);
  return max_need(reference, {.per_thread = pieces.bytes()});
}

template <Isa isa>
void attention_forward(const ExecContext& ctx, const AttentionArgs& a) noexcept {
  if (a.q.dtype == DType::f64) return fall_back(ctx, "attention_forward", ref::attention_forward, a);
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(attention_scratch(a.shape, a.shape.max_q, most_visible_keys(a.shape),
                                                         false, a.q.dtype)));
  if (a.weights) ref::attention_forward(ctx, a);
  const AttentionKernels& kernels = isa == Isa::avx2 ? kAttentionAvx2 : kAttentionAvx512;
  const bool bf16 = a.q.dtype == DType::bf16 && a.k.dtype == DType::bf16;
  const AttentionTiles tiles = attention_tiles(isa, bf16, bool(a.lse), a.shape.head_dim);
  const ForwardGrid grid(a, ctx.pool.size());
  const auto task = [&](int64_t seq, const ForwardPart& part, int thread) {
    return ForwardTask(kernels, tiles, a, unwrap(a.seqs)[seq], part, ctx.scratch.thread<std::byte>(thread));
  };
  const auto heads_from = [&](int64_t first) { return std::min(grid.heads, a.shape.n_kv_head - first); };
  const int64_t columns = static_cast<int64_t>(a.seqs.size()) * grid.head_parts;
  if (grid.segments == 1) {
    ctx.pool.parallel_for(columns * grid.query_parts, [&](int64_t i, int thread) {
      // The last queries of a sequence attend to the most keys. The tasks of these queries start first, so
      // that all threads finish at about the same time.
      const int64_t seq = i % columns / grid.head_parts;
      const int64_t query = (grid.query_parts - 1 - i / columns) * grid.queries;
      const int64_t left = unwrap(a.seqs)[seq].q_len - query;
      const int64_t head = i % grid.head_parts * grid.heads;
      if (left > 0) task(seq, {query, std::min(grid.queries, left), head, heads_from(head)}, thread).run();
    });
    return;
  }
  const SegmentSums sums(ctx, a.shape, grid.segments);
  const auto single_queries = [&](int64_t tasks, auto work) {
    ctx.pool.parallel_for(tasks, [&](int64_t i, int thread) {
      const int64_t seq = i % columns / grid.head_parts, head = i % grid.head_parts * grid.heads;
      if (unwrap(a.seqs)[seq].q_len == 0) return;
      const auto sums_of = [&](int64_t h, int64_t segment) { return sums.at(seq, h, segment); };
      work(task(seq, {0, 1, head, heads_from(head)}, thread), i / columns, sums_of);
    });
  };
  single_queries(columns * grid.segments, [](ForwardTask part, int64_t segment, const auto& sums_of) {
    part.run_segment(segment, sums_of);
  });
  single_queries(columns,
                 [](ForwardTask part, int64_t, const auto& sums_of) { part.finish_segments(sums_of); });
}

template void attention_forward<Isa::avx2>(const ExecContext& ctx, const AttentionArgs& a) noexcept;
template void attention_forward<Isa::avx512>(const ExecContext& ctx, const AttentionArgs& a) noexcept;
template void attention_forward<Isa::avx512bf16>(const ExecContext& ctx, const AttentionArgs& a) noexcept;
template void attention_forward<Isa::amx>(const ExecContext& ctx, const AttentionArgs& a) noexcept;

}  // namespace gpt
#endif
