#include <algorithm>

#include "bench/repeat.h"
#include "model/inference.h"

namespace gpt {
namespace {

// One sequence per slot, and the ids that are fed to it: random ones, since what a token says costs nothing.
struct Feed {
  Feed(const Model& model, int slots, int64_t tokens)
      : slots(slots),
        tokens(tokens),
        ids(random_ids(slots * tokens, model.config.vocab_size)),
        memory(static_cast<size_t>(slots * model.config.vocab_size) * sizeof(float), "logits"),
        logits(make_view(memory.as<float>(), {slots, model.config.vocab_size})) {}

  void reset(Inference& inference) const {
    for (int slot = 0; slot < slots; ++slot)
      inference.reset(slot);
  }
  // Appends tokens [first, first + n) to every sequence.
  void append(Inference& inference, int64_t first, int64_t n) {
    batch.clear();
    for (int slot = 0; slot < slots; ++slot) {
      const auto at = static_cast<size_t>(slot * tokens + first);
      batch.push_back({slot, std::span(ids).subspan(at, static_cast<size_t>(n))});
    }
    inference.append(batch, logits);
  }

  int slots;
  int64_t tokens;
  std::vector<int32_t> ids;
  Buffer memory;
  TensorView logits;
  std::vector<Inference::Append> batch;
};

}  // namespace

WorkloadResult run_inference_workload(const WorkloadContext& context, const Workload& w) {
  const Model& model = context.model;
  const ModelCounts counts(model.config);
  const bool prefill = w.mode == BenchMode::prefill;
  const int slots = w.mode == BenchMode::batch ? static_cast<int>(w.sequences) : 1;
  const int64_t tokens = prefill ? w.rows : w.tokens;
  const int64_t step = prefill ? tokens : 1;  // tokens of a sequence that are appended at once
  ProfiledKernels kernels(context.backend.kernels);
  Inference inference(model, {context.backend.pool, kernels, context.backend.memory},
                      {.slots = slots,
                       .max_rows = step * slots,
                       .capacity = tokens,
                       .dtype = inference_types(w.dtype).activations,
                       .weights = w.dtype,
                       .kv_dtype = w.kv_dtype});
  Feed feed(model, slots, tokens);

  WorkloadResult result{.tokens = tokens * slots};
  result.flops = slots * inference_flops(counts, 0, tokens, !prefill);
  if (!prefill) {
    const int64_t token_bytes = KvCache::bytes(model.config, KvCache::kBlock, w.kv_dtype) / KvCache::kBlock;
    const int64_t cached = slots * tokens * (tokens + 1) / 2;
    result.bytes_read =
        static_cast<double>(tokens * weight_bytes(model, kernels, w.dtype) + cached * token_bytes);
  }
  const bool in_place = context.weights.views().empty();  // in a file
  result.memory_predicted =
      (in_place ? 0 : static_cast<int64_t>(sizeof(float)) * param_buffer_elements(model.table)) +
      inference.bytes() + static_cast<int64_t>(feed.memory.size());
  const auto run = [&] {
    for (int64_t first = 0; first < tokens; first += step)
      feed.append(inference, first, step);
  };
  repeat_timed(
      context, w, kernels, result, [&] { feed.reset(inference); }, run);
  result.memory_predicted += model.packed->bytes();
  return result;
}

}  // namespace gpt
