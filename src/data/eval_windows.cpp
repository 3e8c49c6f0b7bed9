#include "data/eval_windows.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"

namespace gpt {

EvalBatches::EvalBatches(TokenSpan data, int64_t n_ctx, uint64_t seed, int64_t batches, int64_t batch_size)
    : data_(data), n_ctx_(n_ctx), seed_(seed), batches_(batches), batch_size_(batch_size) {
  require_context(data_, n_ctx_, "the evaluation text");
  if (batches_ < 1) fail_usage("eval_batches: expected at least 1, found {}", batches_);
  if (batch_size_ < 1) fail_usage("batch_size: expected at least 1, found {}", batch_size_);
}

void EvalBatches::fill(int64_t batch, int64_t first_sample, int64_t count, int32_t* ids,
                       int32_t* targets) const {
  GPT_ASSERT(batch >= 0 && batch < batches_);
  GPT_ASSERT(first_sample >= 0 && count >= 0 && first_sample + count <= batch_size_);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sample = batch * batch_size_ + first_sample + i;
    RandomStream stream(seed_, RandomSite::eval, 0, static_cast<uint64_t>(sample));
    const auto at = static_cast<int64_t>(stream.below(static_cast<uint64_t>(data_.size() - n_ctx_)));
    data_.copy(at, n_ctx_, ids + i * n_ctx_);
    data_.copy(at + 1, n_ctx_, targets + i * n_ctx_);
  }
}

SequentialWindows::SequentialWindows(TokenSpan data, int64_t n_ctx, int64_t stride)
    : data_(data), n_ctx_(n_ctx), stride_(stride) {
  if (n_ctx_ < 1) fail_usage("n_ctx: expected at least 1, found {}", n_ctx_);
  if (stride_ < 1 || stride_ > n_ctx_) {
    fail_usage("stride: expected 1 to n_ctx = {}, found {}", n_ctx_, stride_);
  }
  if (data_.size() < 2) {
    fail("the evaluation text is too short: expected at least 2 tokens, found {}; give more text",
         data_.size());
  }
}

int64_t SequentialWindows::count() const {
  const int64_t beyond_first = std::max<int64_t>(0, scored() - n_ctx_);
  return 1 + (beyond_first + stride_ - 1) / stride_;
}

void SequentialWindows::fill(int64_t first, int64_t count, int32_t* ids, int32_t* targets) const {
  GPT_ASSERT(first >= 0 && count >= 0 && first + count <= this->count());
  for (int64_t i = 0; i < count; ++i)
    fill_window(first + i, ids + i * n_ctx_, targets + i * n_ctx_);
}

void SequentialWindows::fill_window(int64_t window, int32_t* ids, int32_t* targets) const {
  const int64_t begin = window * stride_;
  const int64_t length = std::min(n_ctx_, scored() - begin);
  const int64_t first_scored = window == 0 ? 0 : n_ctx_ - stride_;
  data_.copy(begin, length, ids);
  std::fill(ids + length, ids + n_ctx_, 0);
  std::fill(targets, targets + n_ctx_, kIgnoredTarget);
  data_.copy(begin + 1 + first_scored, length - first_scored, targets + first_scored);
}

}  // namespace gpt
