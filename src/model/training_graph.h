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

// Runs forward and backward passes of a model for a fixed batch shape [B,T]. All memory is planned in
// advance. Without `gradients`, the graph only computes losses, and all layers use the same memory for
// activations.
class TrainingGraph {
 public:
  struct Options {
    bool gradients = true;
    // Keeps only the input of each layer and recomputes all other activations in the backward pass.
    bool recompute = false;
    // Dtype of activations. The residual stream and logits are fp32, or fp64 if activations are fp64.
    DType dtype = DType::f32;
    std::optional<DType> weights = {};  // dtype of matmuls with weights; unset: `dtype`
    const Objective* objective = &language_modelling();
    // Adapter that is applied to all rows and trained. The adapter's parameters are the last parameters of
    // the model.
    const Adapter* adapter = nullptr;
    // Packs matrices for each use instead of keeping packed copies, which saves memory for a frozen model.
    // The forward pass then also dequantizes quantized weights.
    bool packs_per_use = false;
  };
  TrainingGraph(const Model& model, int64_t batch, int64_t n_ctx, Options options, const Backend& backend);

  // Adds the gradients of the batch to `grads`, or overwrites `grads` if `accumulate` is false. The gradients
  // are multiplied by loss_scale and loss_weight of the step. Also adds the losses of all rows to the loss of
  // the step. Calls `ready` once for each parameter as soon as its gradient is final: first for the head and
  // the final norm, then for the layers from last to first, then for the embeddings (and a tied head).
  void forward_backward(const TrainBatch& batch, const ParamBuffer& grads, bool accumulate,
                        DeviceSpan<StepState> step, const GradReadyHook& ready = {});
  // Returns the sum of the losses of all rows, without dropout and gradients. The loss is in nats and
  // includes only targets other than -1. Works with and without Options::gradients.
  double loss(const TrainBatch& batch);

  // Returns the name of the first weight or activation that contains a NaN or infinity, or "" if all are
  // finite. Runs the forward pass of the training step again and checks the activations in the order in which
  // they are computed.
  std::string first_nonfinite(const TrainBatch& batch, DeviceSpan<const StepState> step);

  int64_t batch_size() const { return batch_; }
  int64_t n_ctx() const { return n_ctx_; }
  int64_t bytes() const { return planner_.bytes() + workspace_.bytes(); }
  const Planner& planner() const { return planner_; }

  // planned_bytes returns the number of bytes that a graph needs. planned_activations returns the number of
  // bytes without scratch memory. Neither function allocates this memory.
  static int64_t planned_bytes(const ModelConfig& config, int64_t batch, int64_t n_ctx, Options options,
                               const KernelTable& kernels, int threads);
  static int64_t planned_activations(const ModelConfig& config, int64_t batch, int64_t n_ctx,
                                     Options options);

 private:
  void announce_layer(const GradReadyHook& ready, int64_t layer) const;
  // All memory of a graph except the rotary tables.
  struct PlannedMemory {
    Activations acts;
    ResidualGrads d;
    std::vector<BlockGrads> block_grads;  // one per distinct layer config, all in the same memory
    std::vector<size_t> grads_of;         // index in block_grads for each layer
    std::vector<SharedKvGrad> kv_grads;  // for each layer; absent if no later layer reads its keys and values
    std::vector<size_t> kv_owner;        // for each layer, the layer that owns its keys and values
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
