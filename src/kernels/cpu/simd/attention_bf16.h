#pragma once

#include "kernels/cpu/simd/attention_micro_kernel.h"
#include "kernels/cpu/simd/attention_softmax.h"
#include "kernels/cpu/simd/bf16_pairs.h"

// Functions for attention in bf16. Operands are 32-bit words of two bf16 values. The attention weights P and
// the score gradients dS are rounded to bf16 before they are multiplied.

namespace gpt::GPT_SIMD_NAMESPACE {

// The operands of the micro-kernel: A [.., k] with any strides, and B [k, vectors of words]. The inner
// dimension k is counted in words.
struct Bf16Operands {
  const uint32_t* a;
  int64_t a_row, a_k;
  const uint32_t* b;
  int64_t ldb;
};

template <int R, int NV>
GPT_INLINE void accumulate(Vec (&c)[R][NV], Bf16Operands x, int64_t from, int64_t to) {
  const uint32_t* b = x.b + from * x.ldb;
  const uint32_t* a = x.a + from * x.a_k;
  for (int64_t k = from; k < to; ++k, a += x.a_k, b += x.ldb) {
    __m512i row[NV];
    GPT_UNROLL
    for (int v = 0; v < NV; ++v)
      row[v] = _mm512_loadu_si512(b + v * kLanes);
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      const __m512i factor = _mm512_set1_epi32(static_cast<int>(a[r * x.a_row]));
      GPT_UNROLL
      for (int v = 0; v < NV; ++v)
        c[r][v] = dot_pairs(factor, row[v], c[r][v]);
    }
  }
}

// Converts the scores of row i to bf16 attention weights in columns [from, to), which must be whole vectors.
// Returns the sum of the weights per vector lane.
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

struct WeightAndGradient {
  Vec weight;    // attention weight after dropout
  Vec gradient;  // gradient of the score
};

// Computes the weights and the score gradients of kLanes keys, starting at column `at` of row i of the tile.
// s: scores of the row; dw: gradients of its attention weights.
GPT_INLINE WeightAndGradient weight_and_gradient(const AttentionBackwardTile& t, int64_t i, int64_t at,
                                                 const float* s, const float* dw) {
  const Vec p = weights_of(load(s + at), set1(t.scale), set1(t.lse[i]), t.begin[i], t.end[i], at / kLanes);
  if (t.keep == nullptr) return {p, p * (load(dw + at) - set1(t.delta[i]))};
  const Vec keep = load(t.keep + i * kKeyTile + at);
  return {p * keep, p * (load(dw + at) * keep - set1(t.delta[i]))};
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
