#pragma once

#include <cstdint>

#include "data/token_data.h"

namespace gpt {

enum class Sampling { random, epoch };

// Training batches as a function of the step. Sample k = step * batch_size + i is one window of n_ctx
// ids and the same window shifted by one as targets:
//   random: starts uniformly in [0, n - n_ctx), keyed by (seed, k);
//   epoch:  windows [w * n_ctx, (w + 1) * n_ctx), each once per epoch in an order keyed by (seed, epoch);
//           the last incomplete window is dropped, and a batch may span two epochs.
// Holds no position, so resuming, micro-batches and ranks read the same samples as one run.
class BatchLoader {
 public:
  // Throws Error when the data has fewer than n_ctx + 1 tokens. The data must outlive the loader.
  BatchLoader(TokenSpan data, int64_t n_ctx, uint64_t seed, Sampling sampling);

  // Writes samples first_sample .. first_sample + count - 1 of the batch of `step` (0-based) to ids and
  // targets, both [count, n_ctx] row-major.
  void fill(int64_t step, int64_t first_sample, int64_t count, int64_t batch_size, int32_t* ids,
            int32_t* targets) const;

  int64_t start(int64_t sample) const;  // the first token of a sample, sample >= 0
  int64_t windows_per_epoch() const { return (data_.size() - 1) / n_ctx_; }
  int64_t n_ctx() const { return n_ctx_; }

 private:
  TokenSpan data_;
  int64_t n_ctx_;
  uint64_t seed_;
  Sampling sampling_;
};

}  // namespace gpt
