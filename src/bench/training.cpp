#include "bench/repeat.h"
#include "model/training_graph.h"
#include "train/loss_scale.h"
#include "train/optimizer.h"

namespace gpt {

// Whole steps as the trainer makes them: forward, backward, clipping, AdamW.
WorkloadResult run_training_workload(const WorkloadContext& context, const Workload& w) {
  const Model& model = context.model;
  ProfiledKernels kernels(context.kernels);
  const ParamBuffer grads(model.table, DType::f32, "gradients");
  Optimizer optimizer(model.table, AdamWSettings{}, DType::f32);
  TrainingGraph graph(model, w.batch_size, w.n_ctx, {.recompute = w.recompute, .dtype = w.dtype},
                      context.pool.size());
  const int64_t tokens = w.batch_size * w.n_ctx;
  const std::vector<int32_t> ids = random_ids(tokens + 1, model.config.vocab_size);
  const double loss_scale = w.dtype == DType::f16 ? LossScale::for_fp16().scale : 1;
  const TrainBatch batch{
      .ids = ids.data(), .targets = ids.data() + 1, .loss_scale = loss_scale / static_cast<double>(tokens)};
  const ExecContext ctx{context.pool, kernels, {}};
  StepParams step{.lr = 1e-4, .loss_scale = loss_scale};

  WorkloadResult result{.tokens = tokens};
  result.flops = static_cast<double>(tokens) * ModelCounts(model.config).training_flops(w.n_ctx);
  result.memory_predicted =
      4 * static_cast<int64_t>(sizeof(float)) * param_buffer_elements(model.table) + graph.bytes();
  const auto run = [&] {
    graph.forward_backward(context.pool, kernels, batch, grads, false, step);
    const GradientNorms norms = optimizer.norms(ctx, grads);
    step.grad_scale = clip_factor(norms.total / loss_scale, 1.0) / loss_scale;
    optimizer.update(ctx, context.weights, grads, step, ++step.step);
    model.packed->weights_changed();
  };
  const auto prepare = [] {};
  repeat_timed(context, w, kernels, result, prepare, run);
  result.memory_predicted += model.packed->bytes();
  return result;
}

}  // namespace gpt
