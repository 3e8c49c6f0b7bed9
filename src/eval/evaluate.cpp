#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "eval/windowing.h"
#include "model/inference.h"
#include "model/training_graph.h"

namespace gpt {
double EvalResult::loss() const {
  return nats / static_cast<double>(tokens);
}
double EvalResult::perplexity() const {
  return std::exp(loss());
}
double EvalResult::bits_per_byte() const {
  return text_bytes == 0 ? 0 : nats / std::numbers::ln2 / static_cast<double>(text_bytes);
}

EvalResult evaluate(const Model& model, const TokenSpan& data, const EvalOptions& options,
                    const Backend& backend, const std::function<void(int64_t, int64_t)>& progress) {
  const Windowing w = choose_windows(model.config, data, options);
  const SequentialWindows windows(data, w.n_ctx, w.stride);
  TrainingGraph graph(
      model, w.batch_size, w.n_ctx,
      {.gradients = false, .dtype = inference_types(options.dtype).activations, .weights = options.dtype},
      backend);
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
    check_ids(ids, targets, model.config.vocab_size);
    result.nats += graph.loss({.ids = ids.data(), .targets = targets.data()});
    if (!std::isfinite(result.nats))
      fail("the loss is not finite in windows {} to {}; the model's weights are damaged", first,
           first + count - 1);
    if (progress) progress(first + count, windows.count());
  }
  return result;
}

}  // namespace gpt
