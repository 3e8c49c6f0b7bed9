// Forward pass of fused attention. Processes one tile of keys at a time (see attention_kernels.h).
#include "kernels/cpu/simd/attention_micro_kernel.h"
#include "kernels/cpu/simd/attention_softmax.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// Arguments of O = alpha O + P V for a block of rows.
struct WeightedSum {
  float* out;
  int64_t dp;
  const float* alpha;    // [R]: factors of the running numerators
  const int32_t* begin;  // [R]
  const int32_t* end;
  Operands x;  // operands P and V
};

// Adds the contribution of keys that only some of the rows attend to. All other rows are left unchanged, so
// that even a NaN in the value of a key cannot reach a row that does not attend to the key.
template <int R, int NV>
GPT_INLINE void multiply_edge(Vec (&c)[R][NV], const WeightedSum& w, int64_t from, int64_t to) {
  for (int64_t k = from; k < to; ++k) {
    Vec row[NV];
    GPT_UNROLL
    for (int v = 0; v < NV; ++v)
      row[v] = load(w.x.b + k * w.x.ldb + v * kLanes);
    GPT_UNROLL
    for (int r = 0; r < R; ++r) {
      if (k < w.begin[r] || k >= w.end[r]) continue;
      const Vec factor = set1(w.x.a[r * w.x.a_row + k]);
      GPT_UNROLL
      for (int v = 0; v < NV; ++v)
        c[r][v] = fma(factor, row[v], c[r][v]);
    }
  }
}

template <int R, int NV>
static void weighted_sum(const WeightedSum& sum) {
  const WeightedSum w = sum;  // a copy, because stores to out could alias the original
  Vec c[R][NV];
  load_scaled(c, w.out, w.dp, w.alpha);
  const int64_t from = w.begin[R - 1];  // every row attends to keys [from, to)
  const int64_t to = w.end[0];
  if (from >= to) {
    multiply_edge<R, NV>(c, w, w.begin[0], w.end[R - 1]);
  } else {
    multiply_edge<R, NV>(c, w, w.begin[0], from);
    accumulate(c, w.x, from, to);
    multiply_edge<R, NV>(c, w, to, w.end[R - 1]);
  }
  store_block<true>(c, w.out, w.dp, first_lanes(kLanes));
}

using WeightedSumFn = void (*)(const WeightedSum&);
static constexpr WeightedSumFn kWeightedSums[kMr][kNrVecs] = GPT_MICRO_KERNELS(weighted_sum);

GPT_INLINE void forward_block(const AttentionForwardTile& t, int64_t first, int64_t rows) {
  alignas(64) float s[kMr * kKeyTile];
  alignas(64) float alpha[kLanes];
  const int64_t begin = t.begin[first] / kLanes * kLanes;
  const int64_t end = t.end[first + rows - 1];
  if (begin >= end) return;
  const int64_t cols = (end - begin + kLanes - 1) / kLanes * kLanes;
  const auto* q = static_cast<const float*>(t.q) + first * t.dp;
  const auto* kt = static_cast<const float*>(t.kt) + begin;
  multiply_rows(s + begin, kKeyTile, false, rows, cols, Operands{q, t.dp, 1, kt, kKeyTile}, 0, t.d);
  softmax_block(t, first, rows, s, alpha);
  const int64_t vecs = t.dp / kLanes;
  const int64_t step = vecs_per_pass(vecs);
  for (int64_t v = 0; v < vecs; v += step) {
    const int64_t at = v * kLanes;
    const float* values = static_cast<const float*>(t.v) + at;
    const WeightedSum w = {t.out + first * t.dp + at, t.dp,          alpha,
                           t.begin + first,           t.end + first, {s, kKeyTile, 1, values, t.dp}};
    kWeightedSums[rows - 1][least(step, vecs - v) - 1](w);
  }
}

static void forward_tile(const AttentionForwardTile& t) {
  for (int64_t r = 0; r < t.rows; r += kMr)
    forward_block(t, r, least(kMr, t.rows - r));
}

static void finish(const AttentionFinish& f) {
  with_type(f.type, f.dst, [&]<class E>(E* to) GPT_ALWAYS_INLINE {
    for (int64_t r = 0; r < f.rows; ++r) {
      f.total[r] = reduce_add(load(f.sum + r * kLanes));
      const Vec inverse = set1(1.0f / f.total[r]);
      store_row(to + r / f.group * f.ld + r % f.group * f.d, f.out + r * f.dp, inverse, f.d);
    }
  });
}

}  // namespace gpt::GPT_SIMD_NAMESPACE

namespace gpt {

#if defined(GPT_SIMD_AVX512)
const AttentionKernels kAttentionAvx512
#else
const AttentionKernels kAttentionAvx2
#endif
    = {
        .lanes = GPT_SIMD_NAMESPACE::kLanes,
        .fp32 = {.element = sizeof(float),
                 .pack_a = GPT_SIMD_NAMESPACE::pack_a,
                 .pack_b_transposed = GPT_SIMD_NAMESPACE::pack_b_transposed,
                 .pack_b = GPT_SIMD_NAMESPACE::pack_a,
                 .forward_tile = GPT_SIMD_NAMESPACE::forward_tile,
                 .decode_tile = GPT_SIMD_NAMESPACE::decode_tile,
                 .backward_tile = GPT_SIMD_NAMESPACE::backward_tile},
        .finish = GPT_SIMD_NAMESPACE::finish,
        .unpack = GPT_SIMD_NAMESPACE::unpack,
        .dots = GPT_SIMD_NAMESPACE::dots,
        .dropout_factors = GPT_SIMD_NAMESPACE::dropout_factors,
};

}  // namespace gpt
