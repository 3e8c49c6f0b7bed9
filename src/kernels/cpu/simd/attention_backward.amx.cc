// Backward pass of fused attention on bf16 operands with AMX. Computes the same as
// attention_backward.bf16.cc, in blocks of 32 queries and 32 keys.
#include "kernels/cpu/simd/amx.h"
#include "kernels/cpu/simd/attention_bf16.h"

namespace gpt::GPT_SIMD_NAMESPACE {

static constexpr int64_t kBlock = amx::kBlockRows;
static constexpr int64_t kPairs = kKeyTile / 2;  // number of pairs of queries in a tile

// The transposed attention weights P^T and score gradients dS^T of a whole tile, as operands A. P^T and dS^T
// are matrices [kKeyTile,kPairs] of words. A row belongs to a key and consists of k-packs of two queries.
struct KeyRows {
  uint32_t* p;
  uint32_t* ds;
};

// Transposes and stores a matrix of sixteen pairs of queries by sixteen keys.
GPT_INLINE void store_key_rows(Vec (&pairs)[kLanes], uint32_t* to) {
  transpose(pairs);
  for (int64_t i = 0; i < kLanes; ++i)
    _mm512_store_ps(to + i * kPairs, pairs[i]);
}

// Computes the attention weights P and the score gradients dS of keys [at, at + 16) and up to 32 queries,
// with zeros for missing queries. ds [kBlock,kKeyTile] receives a second copy of dS, as operand A of the
// product dS K.
GPT_INLINE void softmax_keys(const AttentionBackwardTile& t, int64_t first, int64_t rows, int64_t at,
                             const float* s, const float* dw, uint16_t* ds, const KeyRows& to) {
  Vec p_pairs[kLanes], ds_pairs[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) {
    WeightAndGradient even = {zero(), zero()}, odd = {zero(), zero()};
    const int64_t r = 2 * i, row = r * kKeyTile;
    if (r < rows) even = weight_and_gradient(t, first + r, at, s + row, dw + row);
    if (r + 1 < rows)
      odd = weight_and_gradient(t, first + r + 1, at, s + row + kKeyTile, dw + row + kKeyTile);
    store_bf16(ds + row + at, even.gradient);
    store_bf16(ds + row + kKeyTile + at, odd.gradient);
    p_pairs[i] = _mm512_castsi512_ps(interleave(even.weight, odd.weight));
    ds_pairs[i] = _mm512_castsi512_ps(interleave(even.gradient, odd.gradient));
  }
  store_key_rows(p_pairs, to.p + at * kPairs + first / 2);
  store_key_rows(ds_pairs, to.ds + at * kPairs + first / 2);
}

// Computes p, ds and dq of a block of queries.
GPT_INLINE void query_rows(const AttentionBackwardTile& t, const KeyRows& w, int64_t first, int64_t rows) {
  alignas(64) float s[kBlock * kKeyTile];
  alignas(64) float dw[kBlock * kKeyTile];
  alignas(64) uint16_t ds[kBlock * kKeyTile];
  const int64_t steps = whole_steps(t.end[first + rows - 1]);
  TileProduct x = {.rows = rows,
                   .cols = steps * kStepElements,
                   .steps = t.d / kStepElements,
                   .a = words(t.q) + first * t.dp / 2,
                   .lda = t.dp / 2,
                   .b = words(t.kt),
                   .ldb = kKeyTile,
                   .c = s,
                   .ldc = kKeyTile,
                   .add = false};
  multiply_tiles(x);
  x.a = words(t.dout) + first * t.dp / 2;
  x.b = words(t.vt);
  x.c = dw;
  multiply_tiles(x);
  for (int64_t at = 0; at < x.cols; at += kLanes)
    softmax_keys(t, first, rows, at, s, dw, ds, w);
  multiply_tiles({.rows = rows,
                  .cols = t.dp,
                  .steps = steps,
                  .a = words(ds),
                  .lda = kPairs,
                  .b = words(t.k),
                  .ldb = t.dp,
                  .c = t.dq + first * t.dp,
                  .ldc = t.dp,
                  .add = !t.first});
}

// Computes dk and dv of a block of keys from the queries that attend to any of these keys.
GPT_INLINE void key_rows(const AttentionBackwardTile& t, const KeyRows& w, int64_t key) {
  int64_t from = 0;
  while (from < t.rows && t.end[least(from + kBlock, t.rows) - 1] <= key)
    from += kBlock;
  if (from >= t.rows) return;
  TileProduct x = {.rows = kBlock,
                   .cols = t.dp,
                   .steps = whole_steps(t.rows - from),
                   .a = w.p + key * kPairs + from / 2,
                   .lda = kPairs,
                   .b = words(t.dout_b) + from / 2 * t.dp,
                   .ldb = t.dp,
                   .c = t.dv + key * t.dp,
                   .ldc = t.dp,
                   .add = true};
  multiply_tiles(x);
  x.a = w.ds + key * kPairs + from / 2;
  x.b = words(t.q_b) + from / 2 * t.dp;
  x.c = t.dk + key * t.dp;
  multiply_tiles(x);
}

void backward_tile(const AttentionBackwardTile& t) {
  const KeyRows w = {reinterpret_cast<uint32_t*>(t.p), reinterpret_cast<uint32_t*>(t.ds)};
  for (int64_t r = 0; r < t.rows; r += kBlock)
    query_rows(t, w, r, least(kBlock, t.rows - r));
  for (int64_t key = 0; key < kKeyTile; key += kBlock)
    key_rows(t, w, key);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
