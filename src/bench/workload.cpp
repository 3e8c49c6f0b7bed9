#include "bench/workload.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "bench/repeat.h"
#include "tensor/memory.h"

namespace gpt {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double WorkloadResult::median_seconds() const {
  return median(seconds);
}

double WorkloadResult::total_seconds() const {
  double sum = 0;
  for (const double s : seconds)
    sum += s;
  return sum;
}

double WorkloadResult::slowest() const {
  return static_cast<double>(tokens) / *std::max_element(seconds.begin(), seconds.end());
}
double WorkloadResult::fastest() const {
  return static_cast<double>(tokens) / *std::min_element(seconds.begin(), seconds.end());
}

WorkloadResult run_workload(const WorkloadContext& context, const Workload& workload) {
  return workload.mode == BenchMode::train ? run_training_workload(context, workload)
                                           : run_inference_workload(context, workload);
}

std::vector<int32_t> random_ids(int64_t n, int64_t vocab_size) {
  RandomStream random(1, RandomSite::data);
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids)
    id = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab_size)));
  return ids;
}

void fill_random_weights(ThreadPool& pool, const ParamTable& table, const ParamBuffer& weights) {
  pool.parallel_for(table.count(), [&](int64_t id, int) {
    const InitRule& rule = table[static_cast<int>(id)].init;
    const TensorView w = weights[static_cast<int>(id)];
    const HostAccess access(w);
    float* x = access->as<float>();
    if (rule.kind == InitRule::Kind::zeros || rule.kind == InitRule::Kind::ones) {
      std::fill_n(x, w.size(), rule.kind == InitRule::Kind::ones ? 1.0f : 0.0f);
      return;
    }
    // Knuth's linear congruential generator; uniform values of standard deviation 0.02
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
  for (const ParamSpec& spec : model.table.specs()) {
    const bool looked_up = spec.role == Role::wpe || (spec.role == Role::wte && !model.config.tie_embeddings);
    if (looked_up) continue;
    const auto id = static_cast<size_t>(&spec - model.table.specs().data());
    if (id < model.weights.size() && is_quantized(model.weights[id].dtype)) {
      bytes += row_bytes(model.weights[id].dtype, spec.size());
      continue;
    }
    const bool matrix = spec.shape.size() == 2 && dtype != DType::f32;
    const int64_t packed = matrix ? kernels.packed_bytes(dtype, spec.shape[0], spec.shape[1], false) : 0;
    bytes += packed > 0 ? packed : spec.size() * static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

double inference_flops(const ModelCounts& counts, int64_t before, int64_t tokens, bool all_logits) {
  const ModelConfig& c = counts.config;
  const double head = 2.0 * static_cast<double>(c.vocab_size * c.n_embd);
  const double matrices = counts.forward_flops(0);
  const auto n = static_cast<double>(tokens);
  // token i attends to before + i + 1 keys
  const double keys = n * static_cast<double>(before) + n * (n + 1) / 2;
  const double attention = 4.0 * static_cast<double>(c.n_layer * c.q_dim()) * keys;
  return n * matrices - (all_logits ? 0 : (n - 1) * head) + attention;
}

std::string_view mode_name(BenchMode mode) {
  switch (mode) {
    case BenchMode::train:
      return "train";
    case BenchMode::prefill:
      return "prefill";
    case BenchMode::decode:
      return "decode";
    case BenchMode::batch:
      return "batch";
  }
  return "?";
}

}  // namespace gpt
