// Forward pass of fused attention on bf16 queries, keys and values. Processes one tile of keys at a time. The
// attention weights P are rounded to bf16, and all other values are fp32 (see attention_kernels.h).
#include "kernels/cpu/simd/attention_bf16.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// The operands of the product P V: P are the attention weights, and V is not packed. Pairs of rows of V are
// combined into k-packs when they are read.
struct ValueRows {
  const uint32_t* a;
  PackRows v;
  int64_t column;
};

template <int R, int NV>
GPT_INLINE void accumulate(Vec (&c)[R][NV], ValueRows x, int64_t from, int64_t to) {
  for (int64_t k = from; k < to; ++k) {
    prefetch<Bf16>(x.v, 2 * k, x.column, x.column + NV * kLanes);
    prefetch<Bf16>(x.v, 2 * k + 1, x.column, x.column + NV * kLanes);
    const Bf16 *even = source_row<Bf16>(x.v, 2 * k), *odd = source_row<Bf16>(x.v, 2 * k + 1);
    __m512i row[NV];
    GPT_UNROLL
    for (int v = 0; v < NV; v += 2) {
      const __m512i a = load_row(even, x.column + v * kLanes, x.v.cols);
      const __m512i b = load_row(odd, x.column + v * kLanes, x.v.cols);
      row[v] = interleave_low(a, b);
      if (v + 1 < NV) row[v + 1] = interleave_high(a, b);
    }
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m512i factor = _mm512_set1_epi32(static_cast<int>(x.a[r * kKeyTile / 2 + k]));
      GPT_UNROLL
      for (int v = 0; v < NV; ++v)
        c[r][v] = dot_pairs(factor, row[v], c[r][v]);
    }
  }
}

// Return the operands P (attention weights) and V (values), starting at a column of V.
GPT_INLINE Bf16Operands operands(const void* v, int64_t dp, const uint16_t* p, int64_t column) {
  return {words(p), kKeyTile / 2, 1, words(v) + column, dp};
}
GPT_INLINE ValueRows operands(const PackRows& v, int64_t, const uint16_t* p, int64_t column) {
  return {words(p), v, column};
}

// Arguments of O = alpha O + P V for a block of rows.
template <class X>
struct WeightedSum {
  float* out;
  int64_t dp;
  const float* alpha;  // [R]: factors of the running numerators
  X x;                 // operands P and V
};

template <int R, int NV, class X>
static void weighted_sum(const WeightedSum<X>& sum, int64_t from, int64_t to) {
  const WeightedSum<X> w = sum;  // a copy, because stores to out could alias the original
  Vec c[R][NV];
  load_scaled(c, w.out, w.dp, w.alpha);
  accumulate(c, w.x, from, to);
  store_block<true>(c, w.out, w.dp, first_lanes(kLanes));
}

template <class X>
using WeightedSumFn = void (*)(const WeightedSum<X>&, int64_t, int64_t);
template <class X>
static constexpr WeightedSumFn<X> kWeightedSums[kMr][kNrVecs] = GPT_MICRO_KERNELS(weighted_sum);

template <class Values>
GPT_INLINE void forward_block(const AttentionForwardTile& t, int64_t first, int64_t rows,
                              const Values& values) {
  alignas(64) float s[kMr * kKeyTile];
  alignas(64) float alpha[kLanes];
  alignas(64) uint16_t p[kMr * kKeyTile];
  const int64_t begin = t.begin[first] / kLanes * kLanes;
  const int64_t end = t.end[first + rows - 1];
  if (begin >= end) return;
  const int64_t to = (end + kLanes - 1) / kLanes * kLanes;
  const Bf16Operands scores = {words(t.q) + first * t.dp / 2, t.dp / 2, 1, words(t.kt) + begin, kKeyTile};
  multiply_rows(s + begin, kKeyTile, false, rows, to - begin, scores, 0, (t.d + 1) / 2);
  raise_maxima(t, first, rows, s, alpha);
  for (int64_t r = 0; r < rows; ++r) {
    float* sum = t.sum + (first + r) * kLanes;
    const Vec total = row_weights(t, first + r, s + r * kKeyTile, begin, to, p + r * kKeyTile);
    store(sum, load(sum) * set1(alpha[r]) + total);
  }
  const int64_t vecs = t.dp / kLanes;
  const int64_t step = vecs_per_pass(vecs);
  for (int64_t v = 0; v < vecs; v += step) {
    const int64_t at = v * kLanes;
    auto x = operands(values, t.dp, p, at);
    kWeightedSums<decltype(x)>[rows - 1][least(step, vecs - v) - 1](
        {t.out + first * t.dp + at, t.dp, alpha, x}, begin / 2, (end + 1) / 2);
  }
}

static void forward_tile(const AttentionForwardTile& t) {
  for (int64_t r = 0; r < t.rows; r += kMr)
    forward_block(t, r, least(kMr, t.rows - r), t.v);
}

// Packs the keys up to the last visible key. Reads the values without packing them.
void decode_tile(const AttentionForwardTile& t, const PackRows& k, const PackRows& v, float* keys) {
  PackRows visible = k;
  visible.n = t.end[0];
  pack_b_transposed(visible, keys);
  for (int64_t r = 0; r < t.rows; r += kMr)
    forward_block(t, r, least(kMr, t.rows - r), v);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE

namespace gpt {

const AttentionTiles kAttentionTilesBf16 = {
    .element = sizeof(uint16_t),
    .pack_a = GPT_SIMD_NAMESPACE::pack_a,
    .pack_b_transposed = GPT_SIMD_NAMESPACE::pack_b_transposed,
    .pack_b = GPT_SIMD_NAMESPACE::pack_b,
    .forward_tile = GPT_SIMD_NAMESPACE::forward_tile,
    .decode_tile = GPT_SIMD_NAMESPACE::decode_tile,
    .backward_tile = GPT_SIMD_NAMESPACE::backward_tile,
};

}  // namespace gpt
