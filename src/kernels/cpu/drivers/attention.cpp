#ifdef GPT_HAVE_SIMD
#include "kernels/cpu/drivers/attention.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/drivers/attention_tiles.h"
#include "kernels/cpu/ref/ref.h"

namespace gpt {
namespace {

// One task of the forward pass: some queries of one sequence, with all heads that share a key/value head.
// Rows are in order (query, head of the group), so positions never decrease.
class ForwardTask {
 public:
  ForwardTask(const AttentionKernels& kernels, const AttentionArgs& a, const AttentionSeq& seq,
              std::byte* scratch)
      : kernels_(kernels), a_(a), s_(a.shape), seq_(seq), pieces_(scratch), m_(a.shape, pieces_) {}

  void run(int64_t kv_head, int64_t first_query, int64_t queries) {
    kv_head_ = kv_head;
    first_ = first_query;
    queries_ = queries;
    start();
    const int64_t from = visible_keys(s_, seq_, first_).begin;
    const int64_t to = visible_keys(s_, seq_, first_ + queries_ - 1).end;
    for (int64_t tile = from / kKeyTile * kKeyTile; tile < to; tile += kKeyTile)
      add_tile(tile, from, to);
    finish();
  }

 private:
  int64_t group() const { return group_size(s_); }
  int64_t rows() const { return queries_ * group(); }
  int64_t padded() const { return (s_.head_dim + kernels_.lanes - 1) / kernels_.lanes * kernels_.lanes; }
  int64_t query_column() const { return kv_head_ * group() * s_.head_dim; }

  void start() {
    const int64_t width = group() * s_.head_dim;
    const float* q = a_.q.row<float>(seq_.q_start + first_) + query_column();
    kernels_.pack({q, a_.q.ld, nullptr, queries_, width}, static_cast<float>(s_.scale), m_.q, width);
    std::fill_n(m_.max, rows(), std::numeric_limits<float>::lowest());
    std::fill_n(m_.sum, rows() * kernels_.lanes, 0.0f);
    std::fill_n(m_.out, rows() * padded(), 0.0f);
  }

  void add_tile(int64_t tile, int64_t from, int64_t to) {
    tile_rows(s_, seq_, tile, from, to, m_.rows);
    const int64_t column = kv_head_ * s_.head_dim;
    kernels_.pack_transposed({a_.k.as<float>() + column, a_.k.ld, m_.rows, kKeyTile, s_.head_dim}, m_.kt);
    kernels_.pack({a_.v.as<float>() + column, a_.v.ld, m_.rows, kKeyTile, s_.head_dim}, 1, m_.v, padded());
    for (int64_t r = 0; r < rows(); ++r) {
      const TileRange range = tile_range(s_, seq_, first_ + r / group(), tile);
      m_.begin[r] = range.begin;
      m_.end[r] = range.end;
    }
    if (m_.keep != nullptr) {
      for (int64_t r = 0; r < rows(); ++r) {
        tile_factors(kernels_, s_, seq_.q_start + first_ + r / group(), kv_head_ * group() + r % group(),
                     tile, m_.keep + r * kKeyTile);
      }
    }
    kernels_.forward_tile({rows(), s_.head_dim, padded(), m_.q, m_.kt, m_.v, m_.begin, m_.end, m_.keep,
                           m_.max, m_.sum, m_.out});
  }

  void finish() {
    float* out = a_.out.row<float>(seq_.q_start + first_) + query_column();
    kernels_.finish({rows(), s_.head_dim, padded(), group(), m_.sum, m_.out, out, a_.out.ld, m_.total});
    if (!a_.lse) return;
    for (int64_t r = 0; r < rows(); ++r) {
      float* lse = a_.lse.row<float>(seq_.q_start + first_ + r / group());
      lse[kv_head_ * group() + r % group()] = m_.max[r] + std::log(m_.total[r]);
    }
  }

  const AttentionKernels& kernels_;
  const AttentionArgs& a_;
  const AttentionShape& s_;
  const AttentionSeq& seq_;
  ScratchPieces pieces_;
  ForwardScratch m_;
  int64_t kv_head_ = 0, first_ = 0, queries_ = 0;
};

int64_t longest_query(std::span<const AttentionSeq> seqs) {
  int64_t longest = 0;
  for (const AttentionSeq& seq : seqs)
    longest = std::max(longest, seq.q_len);
  return longest;
}

int64_t tiles(int64_t n, int64_t tile) {
  return (n + tile - 1) / tile;
}

// Queries per task: as many as the scratch holds, fewer when that leaves threads without work. No bit of
// the result depends on it.
int64_t queries_per_task(const AttentionArgs& a, int64_t longest, int threads) {
  const int64_t group = group_size(a.shape);
  const int64_t heads = static_cast<int64_t>(a.seqs.size()) * a.shape.n_kv_head;
  int64_t queries = std::max<int64_t>(1, kQueryRows / group);
  while (queries * group > kQueryRows / 4 && queries > 1 && heads * tiles(longest, queries) < 4 * threads)
    queries /= 2;
  return queries;
}

}  // namespace

template <Isa isa>
void attention_forward(const ExecContext& ctx, const AttentionArgs& a) noexcept {
  if (a.q.dtype != DType::f32) return ref::attention_forward(ctx, a);
  if (a.weights) ref::attention_forward(ctx, a);
  const AttentionKernels& kernels = isa == Isa::avx512 ? kAttentionAvx512 : kAttentionAvx2;
  const int64_t longest = longest_query(a.seqs);
  const int64_t queries = queries_per_task(a, longest, ctx.pool.size());
  const int64_t heads = static_cast<int64_t>(a.seqs.size()) * a.shape.n_kv_head;
  const int64_t n_tiles = tiles(longest, queries);
  ctx.pool.parallel_for(n_tiles * heads, [&](int64_t task, int thread) {
    // The last queries see the most keys: they go first, so that the threads end together.
    const int64_t first = (n_tiles - 1 - task / heads) * queries;
    const AttentionSeq& seq = a.seqs[static_cast<size_t>(task % heads / a.shape.n_kv_head)];
    if (first >= seq.q_len) return;
    ForwardTask(kernels, a, seq, ctx.scratch.thread<std::byte>(thread))
        .run(task % a.shape.n_kv_head, first, std::min(queries, seq.q_len - first));
  });
}

template void attention_forward<Isa::avx2>(const ExecContext& ctx, const AttentionArgs& a) noexcept;
template void attention_forward<Isa::avx512>(const ExecContext& ctx, const AttentionArgs& a) noexcept;

}  // namespace gpt
#endif
