#pragma once

#include <cstdint>

#include "data/token_data.h"

namespace gpt {

// Target value that the loss ignores.
inline constexpr int32_t kIgnoredTarget = -1;

// Provides the fixed random batches that are used to evaluate a model during training. The batches depend
// only on the data and the seed (RandomSite::eval), so they are the same at every evaluation, after every
// resume and for any number of ranks.
class EvalBatches {
 public:
  // Throws Error when the data has fewer than n_ctx + 1 tokens. The data must outlive this object.
  EvalBatches(TokenSpan data, int64_t n_ctx, uint64_t seed, int64_t batches, int64_t batch_size);

  int64_t batches() const { return batches_; }
  int64_t batch_size() const { return batch_size_; }

  // Writes samples first_sample .. first_sample + count - 1 of a batch to ids and targets, both [count,
  // n_ctx].
  void fill(int64_t batch, int64_t first_sample, int64_t count, int32_t* ids, int32_t* targets) const;

 private:
  TokenSpan data_;
  int64_t n_ctx_;
  uint64_t seed_;
  int64_t batches_;
  int64_t batch_size_;
};

// Divides a span into overlapping windows so that every token except the first is scored as a target exactly
// once. Window k starts at k * stride. The first window scores all its targets. Every later window scores
// only its last `stride` targets, which no earlier window has scored. Each of these targets is predicted from
// at least n_ctx - stride preceding tokens. The last window may be shorter. Source: Hugging Face's guide to
// sliding-window perplexity.
class SequentialWindows {
 public:
  // Throws Error unless 1 <= stride <= n_ctx and the data has at least two tokens.
  SequentialWindows(TokenSpan data, int64_t n_ctx, int64_t stride);

  int64_t count() const;                               // number of windows
  int64_t scored() const { return data_.size() - 1; }  // number of scored targets in all windows
  int64_t scored_text_bytes() const { return data_.text_bytes(1, scored()); }

  // Writes windows first .. first + count - 1 to ids and targets, both [count, n_ctx]. Ids past the end of
  // the data are 0. Targets past the end, and targets that are not scored, are kIgnoredTarget.
  void fill(int64_t first, int64_t count, int32_t* ids, int32_t* targets) const;

 private:
  void fill_window(int64_t window, int32_t* ids, int32_t* targets) const;

  TokenSpan data_;
  int64_t n_ctx_;
  int64_t stride_;
};

}  // namespace gpt
