// Forward pass of fused attention on bf16 operands with AMX. Computes the same as attention.bf16.cc, in
// blocks of 32 queries. The head width must be a multiple of 32.
#include "kernels/cpu/simd/amx.h"
#include "kernels/cpu/simd/attention_bf16.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// Computes the attention weights P of a block of rows from the scores S, and rescales the output O to the new
// maxima.
GPT_INLINE void softmax_rows(const AttentionForwardTile& t, int64_t first, int64_t rows, int64_t begin,
                             int64_t to, const float* s, uint16_t* p) {
  alignas(64) float alpha[kLanes];
  raise_maxima(t, first, rows, s, alpha);
  for (int64_t r = 0; r < rows; ++r) {
    float* sum = t.sum + (first + r) * kLanes;
    const Vec total = row_weights(t, first + r, s + r * kKeyTile, begin, to, p + r * kKeyTile);
    store(sum, load(sum) * set1(alpha[r]) + total);
    if (alpha[r] == 1) continue;
    float* out = t.out + (first + r) * t.dp;
    for (int64_t c = 0; c < t.dp; c += kLanes)
      store(out + c, load(out + c) * set1(alpha[r]));
  }
}

GPT_INLINE void forward_rows(const AttentionForwardTile& t, int64_t first, int64_t rows) {
  alignas(64) float s[amx::kBlockRows * kKeyTile];
  alignas(64) uint16_t p[amx::kBlockRows * kKeyTile];
  const int64_t begin = t.begin[first] / kStepElements * kStepElements;
  const int64_t steps = whole_steps(t.end[first + rows - 1] - begin);
  if (t.begin[first] >= t.end[first + rows - 1]) return;
  const int64_t to = begin + steps * kStepElements;
  multiply_tiles({.rows = rows,
                  .cols = to - begin,
                  .steps = t.d / kStepElements,
                  .a = words(t.q) + first * t.dp / 2,
                  .lda = t.dp / 2,
                  .b = words(t.kt) + begin,
                  .ldb = kKeyTile,
                  .c = s + begin,
                  .ldc = kKeyTile,
                  .add = false});
  for (int64_t r = 0; r < rows; r += kLanes)
    softmax_rows(t, first + r, least(kLanes, rows - r), begin, to, s + r * kKeyTile, p + r * kKeyTile);
  multiply_tiles({.rows = rows,
                  .cols = t.dp,
                  .steps = steps,
                  .a = words(p + begin),
                  .lda = kKeyTile / 2,
                  .b = words(t.v) + begin / 2 * t.dp,
                  .ldb = t.dp,
                  .c = t.out + first * t.dp,
                  .ldc = t.dp,
                  .add = true});
}

static void forward_tile(const AttentionForwardTile& t) {
  for (int64_t r = 0; r < t.rows; r += amx::kBlockRows)
    forward_rows(t, r, least(amx::kBlockRows, t.rows - r));
}

}  // namespace gpt::GPT_SIMD_NAMESPACE

namespace gpt {

const AttentionTileKernels kAttentionAmx = {
    .forward_tile = GPT_SIMD_NAMESPACE::forward_tile,
    .backward_tile = GPT_SIMD_NAMESPACE::backward_tile,
};

}  // namespace gpt
