#include "run/adapter_plan.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "model/model_files.h"
#include "model/params.h"
#include "model/training_graph.h"
#include "train/param_groups.h"
#include "train/step_history.h"
#include "train/train_step.h"

namespace gpt {
namespace {

// Returns the size of the model's tensors as stored in the files, plus the size of all tensors that were
// converted in memory.
int64_t stored_bytes(const LoadedModel& base) {
  std::set<const TensorInfo*> tensors;
  int64_t bytes = base.copied_bytes();
  for (const LoadedModel::Origin& origin : base.origins()) {
    if (tensors.insert(origin.tensor).second) bytes += static_cast<int64_t>(origin.tensor->bytes.size());
  }
  return bytes;
}

}  // namespace

AdapterPlan plan_adapter(const PlanSubject& s, const LoadedModel& base, const AdapterSettings& settings) {
  const TrainConfig& train = s.config.train;
  const ModelConfig& c = s.config.model;
  const AdaptedModel adapted(base.model(), base.model().config, settings);
  const ParamTable& table = adapted.model.table;
  const DType dtype = tensor_dtype(train.dtype);
  const auto optimizer = make_optimizer(train, table);
  const int64_t trained = param_buffer_elements(table);
  AdapterPlan plan;
  plan.rank = adapted.adapter.rank;
  plan.parameters = adapted.adapter.table.total();
  plan.memory = plan_memory(s);
  plan.memory.weights = stored_bytes(base) + 4 * trained;
  plan.memory.gradients = 4 * trained + GradientSums::bytes(trained, DType::f32, DType::f32, 1, 1, 0);
  plan.memory.moments = OptimizerState::bytes(optimizer->buffers(), table, DType::f32, {}) +
                        Workspace::bytes(optimizer->scratch(*s.kernels, DType::f32), s.threads);
  plan.memory.packed = largest_packed(c, *s.kernels, dtype);
  TrainingGraph::Options options{
      .recompute = train.recompute, .dtype = dtype, .adapter = &adapted.adapter, .packs_per_use = true};
  const auto graph = [&] {
    return TrainingGraph::planned_bytes(c, train.micro_batch, c.n_ctx, options, *s.kernels, s.threads);
  };
  plan.memory.activations = graph();
  options.gradients = false;
  if (s.evaluates) plan.memory.evaluation = graph();
  return plan;
}

double measure_adapter_step(const PlanSubject& subject, const LoadedModel& base,
                            const AdapterSettings& settings, const RunData& data, const Backend& backend,
                            double seconds, int64_t rows) {
  const TrainConfig& c = subject.config.train;
  const int64_t n_ctx = subject.config.model.n_ctx;
  AdaptedModel adapted(base.model(), subject.config.model, settings, {}, backend.device.get());
  init_params(adapted.model.table, adapted.weights, static_cast<uint64_t>(c.seed));
  TrainStep::Options options = step_options(c, adapted.model.table, n_ctx);
  options.batch_size = options.micro_batch = rows;
  options.shards = 1;
  options.graph.adapter = &adapted.adapter;
  options.graph.packs_per_use = true;
  TrainStep step(adapted.model, adapted.weights, make_optimizer(c, adapted.model.table), backend, options);
  const BatchLoader loader = loader_of(data, c, n_ctx);
  StepInputs state;
  state.seed = static_cast<uint64_t>(c.seed);
  state.lr = c.lr / 10;
  step.set_state({.scaling = initial_loss_scale(tensor_dtype(c.dtype))});
  std::vector<double> micro_batches, updates;
  const auto begin = Clock::now();
  while (micro_batches.size() < 2 || (micro_batches.size() < 1000 && seconds_since(begin) < seconds)) {
    micro_batches.push_back(timed([&] {
      step.begin(state, batch_of(loader, c, state.step, data.document_end));
      step.micro_batch(0, false, true);
    }));
    updates.push_back(timed([&] {
      step.finish_gradients();
      step.update();
    }));
    step.state();  // waits for the device
    ++state.step;
  }
  // The first micro-batch is slower, because it touches its memory for the first time.
  micro_batches.erase(micro_batches.begin());
  return typical_seconds(micro_batches) * static_cast<double>(c.batch_size) / static_cast<double>(rows) +
         typical_seconds(updates);
}

}  // namespace gpt
