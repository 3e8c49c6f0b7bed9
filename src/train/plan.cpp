#include "train/plan.h"

#include <algorithm>

#include "model/kv_cache.h"
#include "model/params.h"
#include "model/training_graph.h"
#include "train/rhythm.h"
#include "train/train_step.h"

namespace gpt {
namespace {

constexpr int64_t kSampleTokens = 256;  // of the prompt and what follows it

// What comes after the plan: program text that is read when it is first run, records, the pages of reports.
// Five runs of 0.06 to 0.8 M parameters had 2.6 to 3.5 MiB of it.
constexpr int64_t kLater = int64_t{3} << 20;

// The matrices that are multiplied with, packed for both directions.
int64_t packed_weight_bytes(const ParamTable& table, const ModelConfig& c, const KernelTable& kernels,
                            DType dtype) {
  int64_t bytes = 0;
  for (const ParamSpec& spec : table.specs()) {
    const bool looked_up = spec.role == Role::wpe || (spec.role == Role::wte && !c.tie_embeddings);
    if (spec.shape.size() != 2 || looked_up) continue;
    for (const bool transposed : {false, true}) {
      const int64_t packed = kernels.packed_bytes(dtype, spec.shape[0], spec.shape[1], transposed);
      const bool other_type = packed == 0 && dtype != DType::f32;
      bytes += other_type ? spec.size() * static_cast<int64_t>(dtype_size(dtype)) : packed;
    }
  }
  return bytes;
}

std::string fit_flags(const TrainConfig& from, const RunFit& fit) {
  std::string flags;
  if (fit.dtype != from.dtype) flags += " --dtype bf16";
  if (fit.micro_batch != from.micro_batch) flags += " --micro-batch " + std::to_string(fit.micro_batch);
  if (fit.recompute != from.recompute) flags += " --recompute";
  return flags.empty() ? flags : flags.substr(1);
}

}  // namespace

RunMemory plan_memory(const PlanSubject& s) {
  const ModelConfig& c = s.config.model;
  const TrainConfig& train = s.config.train;
  const ParamTable table(c);
  const DType dtype = tensor_dtype(train.dtype);
  RunMemory m;
  m.base = s.base_bytes + kLater;
  m.weights = m.gradients = 4 * param_buffer_elements(table);
  m.moments = OptimizerState::bytes(make_optimizer(train, table)->buffers(), table, DType::f32);
  m.packed = packed_weight_bytes(table, c, *s.kernels, dtype);
  m.activations = TrainingGraph::planned_bytes(
      c, train.micro_batch, c.n_ctx, {.recompute = train.recompute, .dtype = dtype}, *s.kernels, s.threads);
  if (s.evaluates) {
    m.evaluation = TrainingGraph::planned_bytes(c, train.micro_batch, c.n_ctx,
                                                {.gradients = false, .dtype = dtype}, *s.kernels, s.threads);
  }
  if (train.sample_every > 0) m.sampling = KvCache::bytes(c, std::min(c.n_ctx, kSampleTokens), DType::f32);
  return m;
}

std::vector<RunFit> find_fits(const PlanSubject& subject, int64_t available) {
  const TrainConfig& train = subject.config.train;
  std::vector<TrainDType> dtypes = {train.dtype};
  if (train.dtype == TrainDType::fp32) dtypes.push_back(TrainDType::bf16);
  std::vector<RunFit> fits;
  for (const TrainDType dtype : dtypes) {
    for (const bool recompute : {false, true}) {
      if (train.recompute && !recompute) continue;
      PlanSubject changed = subject;
      changed.config.train.dtype = dtype;
      changed.config.train.recompute = recompute;
      for (int64_t micro = train.micro_batch; micro >= 1; --micro) {
        if (train.batch_size % micro != 0) continue;
        changed.config.train.micro_batch = micro;
        const int64_t bytes = plan_memory(changed).total();
        if (bytes > available) continue;
        fits.push_back({dtype, micro, recompute, bytes, ""});
        fits.back().flags = fit_flags(train, fits.back());
        break;
      }
    }
  }
  // Recomputing costs a third more operations: not worth it where it allows no larger micro-batch.
  const auto needless = [&](const RunFit& fit) {
    return fit.recompute && std::ranges::any_of(fits, [&](const RunFit& other) {
             return !other.recompute && other.dtype == fit.dtype && other.micro_batch >= fit.micro_batch;
           });
  };
  std::vector<RunFit> kept;
  std::ranges::copy_if(fits, std::back_inserter(kept), [&](const RunFit& fit) { return !needless(fit); });
  return kept;
}

int64_t planned_steps(const TrainConfig& c) {
  return c.stop_after > 0 ? std::min(c.stop_after, c.steps) : c.steps;
}

double typical_seconds(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

int64_t times_due(int64_t steps, int64_t every) {
  return every > 0 ? steps / every + (steps % every != 0 ? 1 : 0) : 0;
}

RunTime plan_time(const PlanSubject& s, const RunRates& r, int64_t parameters) {
  constexpr double kFilesOfModel = 4, kFilesOfState = 6;
  const TrainConfig& c = s.config.train;
  const auto steps = static_cast<double>(planned_steps(c));
  const int64_t parts = c.batch_size / c.micro_batch;
  const auto micro_batches = static_cast<double>(parts);
  RunTime t;
  t.step = r.micro_batch + (micro_batches - 1) * r.accumulated + r.update;
  t.steps = steps * t.step + r.first;
  const auto due = [&](int64_t every) { return static_cast<double>(times_due(planned_steps(c), every)); };
  const auto weights = 4 * static_cast<double>(parameters);
  const auto save = [&](double bytes, double files) {
    return (r.bytes_per_second > 0 ? bytes / r.bytes_per_second : 0) + files * r.file;
  };
  if (s.evaluates) {
    const int64_t n = planned_steps(c);
    t.evaluation = static_cast<double>(evaluated_batches(c, n)) * micro_batches * r.evaluation;
    // Each is the best so far, as a rule.
    t.saving = static_cast<double>(evaluations(c, n)) * save(weights, kFilesOfModel);
  }
  t.sampling = due(c.sample_every) * r.sample;
  t.saving += std::max(1.0, due(c.save_every)) * save(3 * weights, kFilesOfState);
  t.setup = r.setup;
  return t;
}

}  // namespace gpt
