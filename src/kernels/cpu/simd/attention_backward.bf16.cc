// Backward pass of fused attention on bf16 operands, for one tile of keys and one tile of queries. The
// attention weights P and the score gradients dS are rounded to bf16, and all other values are fp32 (see
// attention_kernels.h).
#include "kernels/cpu/simd/attention_bf16.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// The attention weights P and the score gradients dS of a whole tile, as operands A of P^T dO and dS^T Q.
// P and dS are matrices [kKeyTile/2,kKeyTile] of words. Each word is a k-pack of two queries.
struct QueryPairs {
  uint32_t* p;
  uint32_t* ds;
};

// Computes p, ds and dq of a block of rows. Pairs of queries do not cross blocks, because kMr is even.
GPT_INLINE void query_block(const AttentionBackwardTile& t, const QueryPairs& w, int64_t first,
                            int64_t rows) {
  alignas(64) float s[kMr * kKeyTile];
  alignas(64) float dw[kMr * kKeyTile];
  alignas(64) uint16_t ds[kMr * kKeyTile];
  const int64_t end = t.end[first + rows - 1];
  const int64_t cols = (end + kLanes - 1) / kLanes * kLanes;
  const int64_t pairs = (t.d + 1) / 2;
  if (cols > 0) {
    const Bf16Operands scores = {words(t.q) + first * t.dp / 2, t.dp / 2, 1, words(t.kt), kKeyTile};
    const Bf16Operands gradients = {words(t.dout) + first * t.dp / 2, t.dp / 2, 1, words(t.vt), kKeyTile};
    multiply_rows(s, kKeyTile, false, rows, cols, scores, 0, pairs);
    multiply_rows(dw, kKeyTile, false, rows, cols, gradients, 0, pairs);
  }
  for (int64_t r = 0; r < rows; r += 2) {
    const int64_t at_pair = (first + r) / 2 * kKeyTile;
    for (int64_t at = 0; at < cols; at += kLanes) {
      const int64_t row = r * kKeyTile;
      const WeightAndGradient even = weight_and_gradient(t, first + r, at, s + row, dw + row);
      WeightAndGradient odd = {zero(), zero()};
      if (r + 1 < rows)
        odd = weight_and_gradient(t, first + r + 1, at, s + row + kKeyTile, dw + row + kKeyTile);
      store_bf16(ds + row + at, even.gradient);
      store_bf16(ds + row + kKeyTile + at, odd.gradient);
      _mm512_storeu_si512(w.p + at_pair + at, interleave(even.weight, odd.weight));
      _mm512_storeu_si512(w.ds + at_pair + at, interleave(even.gradient, odd.gradient));
    }
    for (int64_t at = cols; at < kKeyTile; at += kLanes) {
      _mm512_storeu_si512(w.p + at_pair + at, _mm512_setzero_si512());
      _mm512_storeu_si512(w.ds + at_pair + at, _mm512_setzero_si512());
    }
  }
  const Bf16Operands x = {words(ds), kKeyTile / 2, 1, words(t.k), t.dp};
  multiply_rows(t.dq + first * t.dp, t.dp, !t.first, rows, t.dp, x, 0, (end + 1) / 2);
}

void backward_tile(const AttentionBackwardTile& t) {
  auto* p = reinterpret_cast<uint32_t*>(t.p);
  auto* ds = reinterpret_cast<uint32_t*>(t.ds);
  for (int64_t r = 0; r < t.rows; r += kMr)
    query_block(t, {p, ds}, r, least(kMr, t.rows - r));
  int64_t from = 0;  // first row that attends to a key of the block; increases from block to block
  for (int64_t key = 0; key < kKeyTile; key += kMr) {
    while (from < t.rows && t.end[from] <= key)
      ++from;
    if (from == t.rows) break;
    const int64_t keys = least(kMr, kKeyTile - key);
    const int64_t to = (t.rows + 1) / 2;
    const Bf16Operands weights = {p + key, 1, kKeyTile, words(t.dout_b), t.dp};
    const Bf16Operands gradients = {ds + key, 1, kKeyTile, words(t.q_b), t.dp};
    multiply_rows(t.dv + key * t.dp, t.dp, true, keys, t.dp, weights, from / 2, to);
    multiply_rows(t.dk + key * t.dp, t.dp, true, keys, t.dp, gradients, from / 2, to);
  }
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
