// Fused attention on bf16 queries, keys and values, forward: one tile of keys at a time, weights rounded to
// bf16, everything else in fp32 (see attention_kernels.h).
#include "kernels/cpu/simd/attention_internal.h"
#include "kernels/cpu/simd/attention_pairs.inc"
#include "kernels/cpu/simd/attention_product.inc"
#include "kernels/cpu/simd/attention_softmax.inc"

namespace gpt::GPT_SIMD_NAMESPACE {

// What the weighted sum of the values needs for a block of rows.
struct WeightedSum {
  float* out;
  int64_t dp;
  const float* alpha;  // [R], what the running numerators are multiplied with first
  PairOperands x;      // weights and values
};

template <int R, int NV>
static void weighted_sum(const WeightedSum& sum, int64_t from, int64_t to) {
  const WeightedSum w = sum;  // a copy: stores to out could alias the original
  Vec c[R][NV];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const Vec alpha = set1(w.alpha[r]);
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v)
      c[r][v] = load(w.out + r * w.dp + v * kLanes) * alpha;
  }
  multiply(c, w.x, from, to);
  store_block<true>(c, w.out, w.dp, first_lanes(kLanes));
}

using WeightedSumFn = void (*)(const WeightedSum&, int64_t, int64_t);
static constexpr WeightedSumFn kWeightedSums[kBlockRows][kBlockVecs] = GPT_BLOCKS(weighted_sum);

// Scores of a row as bf16 weights in columns [from, to), whole vectors; returns their sum, lane by lane.
GPT_INLINE Vec row_weights(const AttentionForwardTile& t, int64_t i, const float* s, int64_t from, int64_t to,
                           uint16_t* p) {
  const Vec scale = set1(t.scale), top = set1(t.max[i]);
  Vec total = zero();
  for (int64_t at = from; at < to; at += kLanes) {
    const Vec w = weights_of(load(s + at), scale, top, t.begin[i], t.end[i], at / kLanes);
    total = total + w;
    store_bf16(p + at, t.keep == nullptr ? w : w * load(t.keep + i * kKeyTile + at));
  }
  return total;
}

GPT_INLINE void forward_block(const AttentionForwardTile& t, int64_t first, int64_t rows) {
  alignas(64) float s[kBlockRows * kKeyTile];
  alignas(64) float alpha[kLanes];
  alignas(64) uint16_t p[kBlockRows * kKeyTile];
  const int64_t begin = t.begin[first] / kLanes * kLanes;
  const int64_t end = t.end[first + rows - 1];
  if (begin >= end) return;
  const int64_t to = (end + kLanes - 1) / kLanes * kLanes;
  const PairOperands scores = {words(t.q) + first * t.dp / 2, t.dp / 2, 1, words(t.kt) + begin, kKeyTile};
  product_rows(s + begin, kKeyTile, false, rows, to - begin, scores, 0, (t.d + 1) / 2);
  raise_maxima(t, first, rows, s, alpha);
  for (int64_t r = 0; r < rows; ++r) {
    float* sum = t.sum + (first + r) * kLanes;
    const Vec total = row_weights(t, first + r, s + r * kKeyTile, begin, to, p + r * kKeyTile);
    store(sum, load(sum) * set1(alpha[r]) + total);
  }
  const int64_t vecs = t.dp / kLanes;
  const int64_t step = even_step(vecs);
  for (int64_t v = 0; v < vecs; v += step) {
    const int64_t at = v * kLanes;
    const PairOperands x = {words(p), kKeyTile / 2, 1, words(t.v) + at, t.dp};
    kWeightedSums[rows - 1][least(step, vecs - v) - 1]({t.out + first * t.dp + at, t.dp, alpha, x}, begin / 2,
                                                       (end + 1) / 2);
  }
}

static void forward_tile(const AttentionForwardTile& t) {
  for (int64_t r = 0; r < t.rows; r += kBlockRows)
    forward_block(t, r, least(kBlockRows, t.rows - r));
}

}  // namespace gpt::GPT_SIMD_NAMESPACE

namespace gpt {

const AttentionTiles kAttentionTilesBf16 = {
    .element = sizeof(uint16_t),
    .pack_rows = GPT_SIMD_NAMESPACE::pack_rows,
    .pack_transposed = GPT_SIMD_NAMESPACE::pack_transposed,
    .pack_summed = GPT_SIMD_NAMESPACE::pack_summed,
    .forward_tile = GPT_SIMD_NAMESPACE::forward_tile,
    .decode_tile = nullptr,
    .backward_tile = GPT_SIMD_NAMESPACE::backward_tile,
};

}  // namespace gpt
