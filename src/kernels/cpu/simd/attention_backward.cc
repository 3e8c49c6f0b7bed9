// Backward pass of fused attention, for one tile of keys and one tile of queries (see attention_kernels.h).
#include "kernels/cpu/simd/attention_micro_kernel.h"
#include "kernels/cpu/simd/attention_softmax.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// Converts row i of p from scores S to attention weights P after dropout, and row i of ds from dP to dS.
// The elements of p and ds are zero for keys that the row does not attend to.
GPT_INLINE void softmax_row(const AttentionBackwardTile& t, int64_t i, int64_t computed) {
  float* p_row = t.p + i * kKeyTile;
  float* ds_row = t.ds + i * kKeyTile;
  const Vec scale = set1(t.scale);
  const Vec lse = set1(t.lse[i]);
  const Vec delta = set1(t.delta[i]);
  for (int64_t at = 0; at < computed; at += kLanes) {
    const int64_t v = at / kLanes;
    const Vec p = weights_of(load(p_row + at), scale, lse, t.begin[i], t.end[i], v);
    if (t.keep == nullptr) {
      store(p_row + at, p);
      store(ds_row + at, p * (load(ds_row + at) - delta));
    } else {
      const Vec keep = load(t.keep + i * kKeyTile + at);
      store(p_row + at, p * keep);
      store(ds_row + at, p * (load(ds_row + at) * keep - delta));
    }
  }
  for (int64_t at = computed; at < kKeyTile; at += kLanes) {
    store(p_row + at, zero());
    store(ds_row + at, zero());
  }
}

// Computes p, ds and dq of a block of rows.
GPT_INLINE void query_block(const AttentionBackwardTile& t, int64_t first, int64_t rows) {
  const int64_t end = t.end[first + rows - 1];
  const int64_t cols = (end + kLanes - 1) / kLanes * kLanes;
  const auto *q = static_cast<const float*>(t.q), *kt = static_cast<const float*>(t.kt);
  const auto *dout = static_cast<const float*>(t.dout), *vt = static_cast<const float*>(t.vt);
  float* p = t.p + first * kKeyTile;
  float* ds = t.ds + first * kKeyTile;
  if (cols > 0) {
    multiply_rows(p, kKeyTile, false, rows, cols, Operands{q + first * t.dp, t.dp, 1, kt, kKeyTile}, 0, t.d);
    multiply_rows(ds, kKeyTile, false, rows, cols, Operands{dout + first * t.dp, t.dp, 1, vt, kKeyTile}, 0,
                  t.d);
  }
  for (int64_t r = 0; r < rows; ++r)
    softmax_row(t, first + r, cols);
  multiply_rows(t.dq + first * t.dp, t.dp, !t.first, rows, t.dp,
                Operands{ds, kKeyTile, 1, static_cast<const float*>(t.k), t.dp}, 0, end);
}

void backward_tile(const AttentionBackwardTile& t) {
  for (int64_t r = 0; r < t.rows; r += kMr)
    query_block(t, r, least(kMr, t.rows - r));
  int64_t from = 0;  // first row that attends to a key of the block; increases from block to block
  for (int64_t key = 0; key < kKeyTile; key += kMr) {
    while (from < t.rows && t.end[from] <= key)
      ++from;
    if (from == t.rows) break;
    const int64_t keys = least(kMr, kKeyTile - key);
    multiply_rows(t.dv + key * t.dp, t.dp, true, keys, t.dp,
                  Operands{t.p + key, 1, kKeyTile, static_cast<const float*>(t.dout_b), t.dp}, from, t.rows);
    multiply_rows(t.dk + key * t.dp, t.dp, true, keys, t.dp,
                  Operands{t.ds + key, 1, kKeyTile, static_cast<const float*>(t.q_b), t.dp}, from, t.rows);
  }
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
