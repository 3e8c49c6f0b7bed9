#include "model/head_loss.h"

#include <algorithm>

namespace gpt {
namespace {

// Returns the number of rows per chunk. The chunk size limits the memory for logits, but is large enough that
// the head matrix is read only a few times.
int64_t chunk_rows(const ModelConfig& c, int64_t rows) {
  constexpr int64_t kTargetElements = int64_t{26} << 20;  // 104 MiB of fp32 logits
  const int64_t fitting =
      std::max<int64_t>(64, kTargetElements / std::max<int64_t>(c.vocab_size, 1) / 64 * 64);
  return std::min(rows, fitting);
}

// Returns a view whose rows have the same addresses as the rows of `wide`, but a different dtype.
TensorView in_place_of(const TensorView& wide, DType dtype) {
  TensorView v = wide;
  v.dtype = dtype;
  v.ld = wide.ld * static_cast<int64_t>(dtype_size(wide.dtype) / dtype_size(dtype));
  return v;
}

// Returns the adapters of rows [at, at + n), with row numbers relative to `at`.
std::vector<RowsAdapter> adapters_of(std::span<const RowsAdapter> adapters, int64_t at, int64_t n) {
  std::vector<RowsAdapter> part;
  for (const RowsAdapter& rows : adapters) {
    const int64_t begin = std::max(rows.begin - at, int64_t{0}), end = std::min(rows.end - at, n);
    if (begin < end) part.push_back({begin, end, rows.adapter});
  }
  return part;
}

}  // namespace

void HeadLoss::plan(Planner& planner, const ModelConfig& c, std::deque<TensorView>& memory) {
  const int64_t chunk = chunk_rows(c, planner.rows());
  planner.add_linear_scratch(chunk, c.vocab_size, c.n_embd);
  planner.reserve(memory.emplace_back(), "logits of one chunk", {chunk, c.vocab_size}, planner.wide());
}

void HeadLoss::run(const ObjectiveCall& call, const TensorView& memory, DeviceSpan<const float> weights,
                   bool backward, double temperature) {
  const DeviceSpan<double> losses = device_span<double>(call.losses);
  const int64_t rows = call.hidden.rows(), chunk = memory.rows();
  ForwardContext part = call.pass;
  BackwardContext gradients(call.backward != nullptr ? *call.backward : BackwardContext(call.pass));
  for (int64_t at = 0; at < rows; at += chunk) {
    const int64_t n = std::min(chunk, rows - at);
    const auto first = static_cast<size_t>(at), count = static_cast<size_t>(n);
    const TensorView x = call.hidden.slice_rows(at, n), logits = memory.slice_rows(0, n);
    const TensorView dlogits = in_place_of(logits, x.dtype);
    const Linear& head = call.layers.head.linear();
    const std::vector<RowsAdapter> adapters = adapters_of(call.pass.batch.adapters, at, n);
    part.batch.adapters = gradients.batch.adapters = adapters;
    head.forward(part, x, logits);
    part.ctx.kernels.cross_entropy(part.ctx, {.logits = logits,
                                              .targets = call.targets.targets.subspan(first, count),
                                              .weights = weights ? weights.subspan(first, count) : weights,
                                              .losses = losses.subspan(first, count),
                                              .dlogits = backward ? dlogits : TensorView{},
                                              .softcap = call.layers.head.softcap(),
                                              .temperature = temperature,
                                              .step = call.step});
    if (backward) head.backward(gradients, x, dlogits, call.dhidden.slice_rows(at, n), false);
    gradients.accumulate = true;  // later chunks add to the gradients of the first chunk
  }
}

}  // namespace gpt
