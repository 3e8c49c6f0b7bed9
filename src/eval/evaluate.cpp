#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "data/eval_windows.h"
#include "model/training_graph.h"

namespace gpt {
namespace {

// Enough rows for efficient matrix products, few enough for the caches.
constexpr int64_t kRowsAtOnce = 1024;
constexpr int64_t kMaxBatch = 65536;

struct Windowing {
  int64_t n_ctx, stride, batch_size;
};

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

void check_ids(const std::vector<int32_t>& ids, int64_t vocab_size) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size) {
      fail("the text has the token id {}, but the model knows only 0 to {}; use the model's own tokenizer",
           id, vocab_size - 1);
    }
  }
}

}  // namespace

double EvalResult::loss() const {
  return nats / static_cast<double>(tokens);
}
double EvalResult::perplexity() const {
  return std::exp(loss());
}
double EvalResult::bits_per_byte() const {
  return text_bytes == 0 ? 0 : nats / std::numbers::ln2 / static_cast<double>(text_bytes);
}

EvalResult evaluate(const Model& model, const TokenSpan& data, const EvalOptions& options, ThreadPool& pool,
                    const KernelTable& kernels, const std::function<void(int64_t, int64_t)>& progress) {
  const Windowing w = choose_windows(model.config, data, options);
  const SequentialWindows windows(data, w.n_ctx, w.stride);
  TrainingGraph graph(model, w.batch_size, w.n_ctx, {.gradients = false}, pool.size());
  std::vector<int32_t> ids(static_cast<size_t>(w.batch_size * w.n_ctx)), targets(ids.size());
  EvalResult result{.tokens = windows.scored(),
                    .text_bytes = windows.scored_text_bytes(),
                    .n_ctx = w.n_ctx,
                    .stride = w.stride};
  for (int64_t first = 0; first < windows.count(); first += w.batch_size) {
    const int64_t count = std::min(w.batch_size, windows.count() - first);
    std::fill(ids.begin(), ids.end(), 0);  // rows beyond the last window do not count
    std::fill(targets.begin(), targets.end(), kIgnoredTarget);
    windows.fill(first, count, ids.data(), targets.data());
    check_ids(ids, model.config.vocab_size);
    for (const int32_t target : targets) {
      if (target >= model.config.vocab_size) check_ids({target}, model.config.vocab_size);
    }
    result.nats += graph.loss(pool, kernels, {.ids = ids.data(), .targets = targets.data()});
    if (!std::isfinite(result.nats))
      fail("the loss is not finite in windows {} to {}; the model's weights are damaged", first,
           first + count - 1);
    if (progress) progress(first + count, windows.count());
  }
  return result;
}

}  // namespace gpt
