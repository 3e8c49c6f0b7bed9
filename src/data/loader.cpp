#include "data/loader.h"

#include "base/error.h"
#include "base/rng.h"
#include "data/permutation.h"

namespace gpt {

BatchLoader::BatchLoader(TokenSpan data, int64_t n_ctx, uint64_t seed, Sampling sampling)
    : data_(data), n_ctx_(n_ctx), seed_(seed), sampling_(sampling) {
  require_context(data_, n_ctx_, "the training text");
}

int64_t BatchLoader::start(int64_t sample) const {
  GPT_ASSERT(sample >= 0);
  if (sampling_ == Sampling::random) {
    RandomStream stream(seed_, RandomSite::data, 0, static_cast<uint64_t>(sample));
    return static_cast<int64_t>(stream.below(static_cast<uint64_t>(data_.size() - n_ctx_)));
  }
  const int64_t windows = windows_per_epoch();
  const KeyedPermutation order(windows, seed_, static_cast<uint64_t>(sample / windows));
  return order(sample % windows) * n_ctx_;
}

void BatchLoader::fill(int64_t step, int64_t first_sample, int64_t count, int64_t batch_size, int32_t* ids,
                       int32_t* targets) const {
  GPT_ASSERT(step >= 0 && first_sample >= 0 && count >= 0 && first_sample + count <= batch_size);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = start(step * batch_size + first_sample + i);
    data_.copy(at, n_ctx_, ids + i * n_ctx_);
    data_.copy(at + 1, n_ctx_, targets + i * n_ctx_);
  }
}

}  // namespace gpt
