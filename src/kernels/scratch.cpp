#include <algorithm>

#include "base/rng.h"
#include "kernels/cpu/drivers/attention.h"
#include "kernels/ops.h"
#include "kernels/select.h"

namespace gpt {

// Scratch covers the reference and the SIMD versions of an op, whichever needs more.

// Partial sums of dgain and dbias for every 32 rows.
ScratchNeed norm_backward_scratch(int64_t rows, int64_t cols, DType) {
  return {.shared = (rows + 31) / 32 * 2 * cols * 8, .per_thread = 0};
}

ScratchNeed attention_scratch(const AttentionShape& shape, int64_t max_q, int64_t max_kv, bool backward,
                              DType) {
  ScratchPieces pieces(nullptr);
  if (backward) {
    BackwardScratch(shape, max_q, pieces);
  } else {
    ForwardScratch(shape, pieces);
  }
  const int64_t reference = (2 * max_kv + 2 * shape.head_dim + 64) * 8;
  return {.shared = 0, .per_thread = std::max(pieces.bytes(), reference)};
}

// Maxima of blocks; values; ids.
ScratchNeed select_candidates_scratch(int64_t vocab_size) {
  return {.per_thread = 4 * (2 * vocab_size + select_blocks(vocab_size) + kSelectBlock)};
}

uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t site, uint32_t layer) {
  return RandomStream(seed, static_cast<RandomSite>(site), step, layer).next_u64();
}

}  // namespace gpt
