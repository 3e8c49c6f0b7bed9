#pragma once

#include <cstdint>

#include "data/token_data.h"

namespace gpt {

// A target that does not count in the loss.
inline constexpr int32_t kIgnoredTarget = -1;

// The fixed random batches that training is evaluated on: drawn from the seed (RandomSite::eval) alone,
// so the same at every evaluation, after every resume and for any number of ranks.
class EvalBatches {
 public:
  // Throws Error when the data has fewer than n_ctx + 1 tokens. The data must outlive this.
  EvalBatches(TokenSpan data, int64_t n_ctx, uint64_t seed, int64_t batches, int64_t batch_size);

  int64_t batches() const { return batches_; }
  int64_t batch_size() const { return batch_size_; }

  // Writes samples first_sample .. first_sample + count - 1 of a batch, ids and targets [count, n_ctx].
  void fill(int64_t batch, int64_t first_sample, int64_t count, int32_t* ids, int32_t* targets) const;

 private:
  TokenSpan data_;
  int64_t n_ctx_;
  uint64_t seed_;
  int64_t batches_;
  int64_t batch_size_;
};

// Windows over a whole span in which every token but the first is a target exactly once. Window k starts
// at k * stride; the first scores all its targets, every later one only those that no window before
// scored: the last `stride`, each predicted from at least n_ctx - stride tokens before it. The last
// window may be shorter. Source: the sliding-window perplexity of Hugging Face's guide.
class SequentialWindows {
 public:
  // Throws Error unless 1 <= stride <= n_ctx and the data has at least two tokens.
  SequentialWindows(TokenSpan data, int64_t n_ctx, int64_t stride);

  int64_t count() const;                               // windows
  int64_t scored() const { return data_.size() - 1; }  // targets that count, over all windows
  int64_t scored_text_bytes() const { return data_.text_bytes(1, scored()); }

  // Writes windows first .. first + count - 1, ids and targets [count, n_ctx]. Past the end of the data
  // ids are 0; there and where a target does not count, targets are kIgnoredTarget.
  void fill(int64_t first, int64_t count, int32_t* ids, int32_t* targets) const;

 private:
  void fill_window(int64_t window, int32_t* ids, int32_t* targets) const;

  TokenSpan data_;
  int64_t n_ctx_;
  int64_t stride_;
};

}  // namespace gpt
