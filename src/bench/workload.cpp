#include "bench/workload.h"

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "base/ranges.h"
#include "base/rng.h"
#include "model/inference.h"
#include "model/weight_cache.h"
#include "tensor/device.h"
#include "train/step_history.h"
#include "train/train_step.h"

namespace gpt {
namespace {

std::vector<int32_t> random_ids(int64_t n, int64_t vocab_size) {
  RandomStream random(1, RandomSite::data);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids)
    id = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab_size)));
  return ids;
}

// Calls prepare() and warm_up() once. Then calls prepare() and run() workload.repeat times, and times and
// profiles only run().
template <class Prepare, class WarmUp, class Run>
void repeat_timed(const WorkloadContext& context, const Workload& workload, ProfiledKernels& profile,
                  WorkloadResult& result, Prepare&& prepare, WarmUp&& warm_up, Run&& run) {
  const auto progress = [&](int i) {
    if (context.progress) context.progress(i);
  };
  progress(0);
  prepare();
  warm_up();
  profile.clear();
  for (int i = 1; i <= workload.repeat; ++i) {
    progress(i);
    const auto before = profile.counters;
    prepare();
    profile.counters = before;
    const auto start = Clock::now();
    run();
    result.seconds.push_back(seconds_since(start));
  }
  progress(workload.repeat + 1);
  result.ops = profile.times();
}

// Random token ids for the sequences, with one sequence per slot. The values of the ids do not affect the
// speed.
struct Feed {
  Feed(const Model& model, int slots, int64_t tokens)
      : slots(slots),
        tokens(tokens),
        ids(random_ids(slots * tokens, model.config.vocab_size)),
        memory(static_cast<size_t>(slots * model.config.vocab_size) * sizeof(float), "logits"),
        logits(make_view(memory.as<float>(), {slots, model.config.vocab_size})) {}

  // Truncates or extends every sequence to its first n tokens.
  void go_to(Inference& inference, int64_t n) {
    for (int slot = 0; slot < slots; ++slot) {
      const int64_t kept = std::min(n, inference.length(slot));
      if (inference.can_truncate(slot, kept)) {
        inference.truncate(slot, kept);
      } else {
        inference.reset(slot);
      }
    }
    if (inference.length(0) < n) append(inference, 0, n);
  }
  // Appends tokens [first, first + n) to every sequence, in as few steps as possible.
  void append(Inference& inference, int64_t first, int64_t n) {
    const int64_t most = inference.max_rows() / slots;
    for (int64_t done = 0; done < n; done += most) {
      const int64_t step = std::min(most, n - done);
      batch.clear();
      for (int slot = 0; slot < slots; ++slot) {
        const auto at = static_cast<size_t>(slot * tokens + first + done);
        batch.push_back({slot, std::span(ids).subspan(at, static_cast<size_t>(step)), done + step == n});
      }
      inference.append(batch, logits);
    }
  }

  int slots;
  int64_t tokens;
  std::vector<int32_t> ids;
  Buffer memory;
  TensorView logits;
  std::vector<Inference::Append> batch;
};

// Throws Error if the memory is not available. Must be called before the memory is touched: the system grants
// an allocation that is too large, and kills the process when it uses the memory.
void check_fits(const char* what, int64_t bytes, int64_t available) {
  if (available > 0 && bytes > available)
    fail_memory("not enough memory for {}: {} needed, {} available; use a smaller model, batch or context",
                what, format_bytes(static_cast<double>(bytes)), format_bytes(static_cast<double>(available)));
}

// Returns the size of the loaded weights in bytes. If `in_place` is true, the weights are memory-mapped, and
// their size in the file counts. Lookup tables do not count, because only a few of their rows are read. If
// `in_place` is false, the weights are copied to an fp32 buffer, and the size of the buffer counts.
int64_t loaded_bytes(const Model& model, bool in_place) {
  if (!in_place) return static_cast<int64_t>(sizeof(float)) * param_buffer_elements(model.table);
  int64_t bytes = 0;
  for (size_t i = 0; i < model.weights.size(); ++i)
    if (!model.table[static_cast<int>(i)].is_lookup_table)
      bytes += row_bytes(model.weights[i].dtype, model.weights[i].size());
  return bytes;
}

WorkloadResult run_inference_workload(const WorkloadContext& context, const Workload& w) {
  const Model& model = context.model;
  const ModelCounts counts(model.config);
  const bool prefill = w.mode == BenchMode::prefill;
  const int slots = w.mode == BenchMode::batch ? static_cast<int>(w.sequences) : 1;
  const int64_t tokens = prefill ? w.rows : w.tokens;
  const int64_t step = prefill ? tokens : 1;        // tokens per step appended to a sequence
  const int64_t longest = std::max(step, w.depth);  // longest append to a sequence
  const int64_t available = available_memory();
  ProfiledKernels kernels(context.backend.kernels);
  Inference inference(model, {context.backend.pool, kernels, context.backend.device},
                      {.slots = slots,
                       .max_rows = std::max<int64_t>(slots, std::min(longest, Inference::Options{}.max_rows)),
                       .capacity = w.depth + tokens,
                       .dtype = inference_types(w.dtype).activations,
                       .weights = w.dtype,
                       .kv_dtype = w.kv_dtype,
                       .repack = w.repack});
  check_fits("the KV cache and activations", inference.bytes(), available);
  Feed feed(model, slots, w.depth + tokens);

  WorkloadResult result{.tokens = tokens * slots};
  result.flops = slots * inference_flops(counts, w.depth, tokens, !prefill);
  if (!prefill) {
    const int64_t token_bytes = KvCache::bytes(model.config, KvCache::kBlock, w.kv_dtype) / KvCache::kBlock;
    const double cached = slots * keys_seen(model.config.sliding_window, w.depth, tokens);
    result.bytes_read = static_cast<double>(tokens * weight_bytes(model, kernels, w.dtype)) +
                        cached * static_cast<double>(token_bytes);
  }
  result.memory_predicted = loaded_bytes(model, context.weights.views().empty()) + inference.bytes() +
                            static_cast<int64_t>(feed.memory.size());
  const auto append = [&](int64_t n) {
    for (int64_t first = 0; first < n; first += step)
      feed.append(inference, w.depth + first, std::min(step, n));
  };
  // The first rows of a long prompt are enough to warm up.
  const int64_t warm = prefill ? std::min(tokens, Inference::Options{}.max_rows) : tokens;
  const auto prepare = [&] { feed.go_to(inference, w.depth); };
  const auto warm_up = [&] {
    append(warm);
    while (inference.repacks_after(slots * step)) {
      prepare();
      append(warm);
    }
  };
  repeat_timed(context, w, kernels, result, prepare, warm_up, [&] { append(tokens); });
  result.memory_predicted += model.packed->bytes();
  if (model.pages != nullptr) result.repacked = model.pages->moved();
  return result;
}

// Runs complete training steps like the trainer: forward, backward, clipping, AdamW.
WorkloadResult run_training_workload(const WorkloadContext& context, const Workload& w) {
  const Model& model = context.model;
  const int64_t available = available_memory();
  ProfiledKernels kernels(context.backend.kernels);
  TrainStep step(model, context.weights, make_adamw(model.table, {}),
                 {context.backend.pool, kernels, context.backend.device},
                 {.batch_size = w.batch_size,
                  .micro_batch = w.batch_size / context.processes->size(),
                  .shards = context.processes->size(),
                  .n_ctx = w.n_ctx,
                  .graph = {.recompute = w.recompute, .dtype = w.dtype},
                  .clip_norm = 1,
                  .communicator = context.processes});
  check_fits("a training step", step.bytes(), available);
  const int64_t tokens = w.batch_size * w.n_ctx;
  const std::vector<int32_t> ids = random_ids(tokens + 1, model.config.vocab_size);
  const auto fill = [&](int64_t first, int64_t rows, const TrainStep::Samples& samples) {
    const int32_t* from = ids.data() + first * w.n_ctx;
    std::copy_n(from, rows * w.n_ctx, samples.ids);
    std::copy_n(from + 1, rows * w.n_ctx, samples.targets);
  };
  StepInputs inputs{.lr = 1e-4};
  step.set_state({.scaling = initial_loss_scale(w.dtype)});

  WorkloadResult result{.tokens = tokens};
  result.flops = static_cast<double>(tokens) * ModelCounts(model.config).training_flops(w.n_ctx);
  result.memory_predicted =
      static_cast<int64_t>(sizeof(float)) * param_buffer_elements(model.table) + step.bytes();
  const auto run = [&] {
    step.compute_gradients(inputs, fill);
    step.update();
    step.state();  // waits for the end of the step
    ++inputs.step;
  };
  const auto prepare = [&] { barrier(*context.processes, "starting a step"); };
  repeat_timed(context, w, kernels, result, prepare, run, run);
  result.memory_predicted += model.packed->bytes();
  return result;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double WorkloadResult::median_seconds() const {
  return median(seconds);
}

double WorkloadResult::total_seconds() const {
  return sum_of(seconds);
}

double WorkloadResult::slowest() const {
  return static_cast<double>(tokens) / *std::max_element(seconds.begin(), seconds.end());
}
double WorkloadResult::fastest() const {
  return static_cast<double>(tokens) / *std::min_element(seconds.begin(), seconds.end());
}

void fill_random_weights(ThreadPool& pool, const ParamTable& table, const ParamBuffer& weights) {
  pool.parallel_for(table.count(), [&](int64_t id, int) {
    const InitRule& rule = table[static_cast<int>(id)].init;
    const TensorView w = weights[static_cast<int>(id)];
    const MappedView access(w, Access::write);
    float* x = access->as<float>();
    if (rule.kind == InitRule::Kind::zeros || rule.kind == InitRule::Kind::ones) {
      std::fill_n(x, w.size(), rule.kind == InitRule::Kind::ones ? 1.0f : 0.0f);
      return;
    }
    // Knuth's linear congruential generator, with uniform values of standard deviation 0.02.
    uint64_t state = static_cast<uint64_t>(id) + 1;
    for (int64_t i = 0; i < w.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto high = static_cast<int32_t>(state >> 32);
      x[i] = 0.02f * 1.7320508f * static_cast<float>(high) * 0x1p-31f;
    }
  });
}

int64_t weight_bytes(const Model& model, const KernelTable& kernels, DType dtype) {
  int64_t bytes = 0;
  const std::vector<PackedForm> forms = packed_forms(model.table, model.weights, kernels, {.compute = dtype});
  for (const int id : stored_params(model.table, forms)) {
    const auto at = static_cast<size_t>(id);
    bytes +=
        row_bytes(at < model.weights.size() ? model.weights[at].dtype : DType::f32, model.table[id].size());
  }
  return bytes + sum_of(forms, &PackedForm::bytes);
}

std::optional<DType> block_type(const Model& model) {
  std::map<DType, int64_t> bytes;
  for (const TensorView& w : model.weights)
    bytes[w.dtype] += row_bytes(w.dtype, w.size());
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& type) { return type.second; });
  if (most == bytes.end() || !is_quantized(most->first)) return {};
  return most->first;
}

double keys_seen(int64_t window, int64_t before, int64_t tokens) {
  // Without a window, token i attends to before + i + 1 keys. With a window, it attends to at most the last
  // `window` keys.
  const int64_t growing = window == 0 ? tokens : std::clamp<int64_t>(window - before, 0, tokens);
  const auto n = static_cast<double>(growing);
  return n * static_cast<double>(before) + n * (n + 1) / 2 +
         static_cast<double>(tokens - growing) * static_cast<double>(window);
}

double inference_flops(const ModelCounts& counts, int64_t before, int64_t tokens, bool all_logits) {
  const ModelConfig& c = counts.config;
  const double head = 2.0 * static_cast<double>(c.vocab_size * c.n_embd);
  const double matrices = counts.forward_flops(0);
  const auto n = static_cast<double>(tokens);
  double attention = 0;
  for (const LayerConfig& layer : layer_configs(c))
    attention += 4.0 * static_cast<double>(layer.q_dim()) * keys_seen(layer.window, before, tokens);
  return n * matrices - (all_logits ? 0 : (n - 1) * head) + attention;
}

WorkloadResult run_workload(const WorkloadContext& context, const Workload& workload) {
  return workload.mode == BenchMode::train ? run_training_workload(context, workload)
                                           : run_inference_workload(context, workload);
}

}  // namespace gpt
