#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "model/model.h"
#include "model/objective.h"
#include "model/params.h"
#include "model/rope_table.h"
#include "tensor/device.h"

namespace gpt {

// Forward and backward passes of a model for a fixed batch shape [B,T], in memory planned beforehand.
// With `gradients` false it computes losses only, in the memory of one block.
class TrainingGraph {
 public:
  struct Options {
    bool gradients = true;
    bool recompute = false;    // keep only each block's input and compute the rest again in backward
    DType dtype = DType::f32;  // of activations; the residual stream and logits are fp32 (fp64) at least
    std::optional<DType> weights = {};  // what products with weights are computed in (dtype)
    const Objective* objective = &language_modelling();
    // Used on all rows, and trained: the last parameters of the model are its own.
    const Adapter* adapter = nullptr;
    // Matrices are packed when they are used and not kept so: for a frozen model, whose memory counts. Those
    // in blocks then are the numbers that these stand for, in forward products too.
    bool packs_per_use = false;
  };
  TrainingGraph(const Model& model, int64_t batch, int64_t n_ctx, Options options, const Backend& backend);

  // Adds the gradients of the batch to `grads` (or sets them, when `accumulate` is false), times loss_scale
  // and loss_weight of the step; and the sum of the losses of the rows to its loss. Calls `ready` once for
  // each parameter as soon as its gradient is final: first the head and the final norm, then the layers from
  // the last one on, then the embeddings (and a head that shares their matrix).
  void forward_backward(const TrainBatch& batch, const ParamBuffer& grads, bool accumulate,
                        DeviceSpan<StepState> step, const GradReadyHook& ready = {});
  // The sum of the rows' losses (nats over the targets that count), without dropout and gradients. In either
  // mode.
  double loss(const TrainBatch& batch);

  // The first weight or activation that holds a NaN or an infinity, in the order of the forward pass of a
  // training step, which is run once more; "" when all are finite.
  std::string first_nonfinite(const TrainBatch& batch, DeviceSpan<const StepState> step);

  int64_t batch_size() const { return batch_; }
  int64_t n_ctx() const { return n_ctx_; }
  int64_t bytes() const { return planner_.bytes() + workspace_.bytes(); }
  const Planner& planner() const { return planner_; }

  // What `bytes` of such a graph would be, and its part without scratch memory; nothing of that size is
  // allocated.
  static int64_t planned_bytes(const ModelConfig& config, int64_t batch, int64_t n_ctx, Options options,
                               const KernelTable& kernels, int threads);
  static int64_t planned_activations(const ModelConfig& config, int64_t batch, int64_t n_ctx,
                                     Options options);

 private:
  void announce_layer(const GradReadyHook& ready, int64_t layer) const;
  // All memory of a graph but the rotary table.
  struct PlannedMemory {
    Activations acts;
    ResidualGrads d;
    std::vector<BlockGrads> block_grads;  // one for blocks of the same kind, all in one place
    std::vector<size_t> grads_of;         // by layer
    std::vector<SharedKvGrad> kv_grads;   // by layer; absent where no later layer reads keys and values
    std::vector<size_t> kv_owner;         // by layer
    std::deque<TensorView> objective;
    void plan(Planner& planner, const ModelConfig& config, const Options& options);
    BlockGrads grads(size_t layer);
  };
  static PassShape shape(int64_t batch, int64_t n_ctx, const Options& options);
  ForwardContext make_pass(const ExecContext& ctx, const TrainBatch& batch);
  DeviceTargets upload_targets(const TrainBatch& batch);
  ObjectiveCall call(const ForwardContext& pass, const DeviceTargets& targets,
                     DeviceSpan<const StepState> step);

  const Model& model_;
  Backend backend_;
  int64_t batch_, n_ctx_, rows_;
  Options options_;
  Planner planner_;
  Buffer arena_;
  Workspace workspace_;
  std::vector<RopeTable> rope_;
  std::vector<int32_t> positions_;
  std::vector<AttentionSeq> seqs_;
  RowsAdapter adapter_rows_;
  Buffer losses_;  // [rows] fp64
  DeviceArray<int32_t> device_ids_, device_targets_, device_positions_;
  DeviceArray<float> device_weights_, device_labels_;
  DeviceArray<AttentionSeq> device_seqs_;
  DeviceArray<double> device_loss_;
  PlannedMemory memory_;
};

}  // namespace gpt
