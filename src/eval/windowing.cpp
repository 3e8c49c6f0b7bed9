#include "eval/windowing.h"

#include <algorithm>

#include "base/error.h"

namespace gpt {
namespace {

// Enough rows for efficient matrix products, few enough for the caches.
constexpr int64_t kRowsAtOnce = 1024;
constexpr int64_t kMaxBatch = 65536;

}  // namespace

Windowing choose_windows(const ModelConfig& config, const TokenSpan& data, const EvalOptions& options) {
  Windowing w{.n_ctx = options.n_ctx, .stride = options.stride, .batch_size = options.batch_size};
  if (w.n_ctx == 0) w.n_ctx = config.n_ctx;
  if (w.n_ctx < 1 || w.n_ctx > config.n_ctx) {
    fail_usage("--n-ctx: expected 1 to {} (the model's context), found {}", config.n_ctx, w.n_ctx);
  }
  if (w.stride == 0) w.stride = w.n_ctx;
  if (w.stride < 1 || w.stride > w.n_ctx)
    fail_usage("--stride: expected 1 to n_ctx = {}, found {}", w.n_ctx, w.stride);
  if (w.batch_size < 0 || w.batch_size > kMaxBatch) {
    fail_usage("--batch-size: expected 1 to {}, found {}", kMaxBatch, w.batch_size);
  }
  if (data.size() < 2) fail("the text to evaluate has {} token(s); at least 2 are needed", data.size());
  // A text shorter than a window needs no more memory than itself.
  w.n_ctx = std::min(w.n_ctx, data.size() - 1);
  w.stride = std::min(w.stride, w.n_ctx);
  if (w.batch_size == 0) w.batch_size = std::max<int64_t>(1, kRowsAtOnce / w.n_ctx);
  w.batch_size = std::min(w.batch_size, SequentialWindows(data, w.n_ctx, w.stride).count());
  return w;
}

void check_ids(const std::vector<int32_t>& ids, const std::vector<int32_t>& targets, int64_t vocab_size) {
  const auto check = [&](int32_t id) {
    if (id < vocab_size) return;
    fail("the text has the token id {}, but the model knows only 0 to {}; use the model's own tokenizer", id,
         vocab_size - 1);
  };
  std::for_each(ids.begin(), ids.end(), check);
  std::for_each(targets.begin(), targets.end(), check);
}

}  // namespace gpt
