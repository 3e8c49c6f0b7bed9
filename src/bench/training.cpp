#include <algorithm>

#include "bench/repeat.h"
#include "train/loss_scale.h"
#include "train/train_step.h"

namespace gpt {

// Whole steps as the trainer makes them: forward, backward, clipping, AdamW.
WorkloadResult run_training_workload(const WorkloadContext& context, const Workload& w) {
  const Model& model = context.model;
  ProfiledKernels kernels(context.backend.kernels);
  TrainStep step(model, context.weights, make_adamw(model.table, {}),
                 {context.backend.pool, kernels, context.backend.memory},
                 {.batch_size = w.batch_size,
                  .micro_batch = w.batch_size,
                  .n_ctx = w.n_ctx,
                  .graph = {.recompute = w.recompute, .dtype = w.dtype},
                  .clip_norm = 1});
  const int64_t tokens = w.batch_size * w.n_ctx;
  const std::vector<int32_t> ids = random_ids(tokens + 1, model.config.vocab_size);
  const auto fill = [&](int64_t, int64_t, const TrainStep::Samples& samples) {
    std::copy_n(ids.data(), tokens, samples.ids);
    std::copy_n(ids.data() + 1, tokens, samples.targets);
  };
  StepState start{.lr = 1e-4, .loss_scale = w.dtype == DType::f16 ? LossScale::for_fp16().scale : 1};

  WorkloadResult result{.tokens = tokens};
  result.flops = static_cast<double>(tokens) * ModelCounts(model.config).training_flops(w.n_ctx);
  result.memory_predicted =
      static_cast<int64_t>(sizeof(float)) * param_buffer_elements(model.table) + step.bytes();
  const auto run = [&] {
    step.compute_gradients(start, fill);
    step.update();
    start.updates = step.state().updates;
    ++start.step;
  };
  const auto prepare = [] {};
  repeat_timed(context, w, kernels, result, prepare, run);
  result.memory_predicted += model.packed->bytes();
  return result;
}

}  // namespace gpt
