#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "model/training_graph.h"
#include "train/documents.h"
#include "train/gradient_sums.h"
#include "train/optimizer.h"
#include "train/sharded_weights.h"
#include "train/train_config.h"

namespace gpt {

// Runs one training step: forward and backward passes over the micro-batches of a batch, gradient norm,
// clipping and optimizer update. The class is used by training and by all code that measures or verifies
// training. A batch is split into shards, whose gradients are added in order. With several ranks, each rank
// computes some of the shards, gradients are exchanged during the backward pass, and all ranks apply the same
// update.
class TrainStep {
 public:
  struct Options {
    // The batch size counts the samples of all ranks. The size of a micro-batch must divide the size of a
    // shard.
    int64_t batch_size = 1, micro_batch = 1;
    int64_t shards = 1;  // number of shards per batch; must be a multiple of the number of ranks
    // shard_map lists the elements that each rank updates and whose optimizer state it stores (ZeRO 1). An
    // empty shard_map disables sharding. The optimizer must be created with this rank's part. If
    // divides_gradients is true, each rank only keeps memory for its own gradient sums (ZeRO 2), and a
    // micro-batch must be a whole shard.
    ShardMap shard_map = {};
    bool divides_gradients = false;
    bool divides_weights = false;  // each rank only keeps its part of the weights between passes (ZeRO 3)
    bool sends_bf16 = false;       // send gradients and their sums as bf16
    int64_t n_ctx = 0;             // number of tokens per sample
    TrainingGraph::Options graph = {};
    double clip_norm = 0, clip_value = 0;  // 0: off
    Communicator* communicator = &single_process();
  };
  // `weights` are the trainable weights of the model, in memory of the backend. `model` and `weights` must
  // outlive this object.
  TrainStep(const Model& model, const ParamBuffer& weights, std::unique_ptr<Optimizer> optimizer,
            const Backend& backend, const Options& options);

  ~TrainStep();                          // waits for the device, which writes to the snapshots
  TrainStep(const TrainStep&) = delete;  // queued ops refer to the address of the state
  TrainStep& operator=(const TrainStep&) = delete;

  // Pointers to the buffers for samples [rows,n_ctx] and labels [rows]. Initially the weights are 1, and
  // starts and labels are 0.
  struct Samples {
    int32_t *ids, *targets;
    float* weights;
    uint8_t* starts;  // 1: a sequence starts at this token; samples always start a new sequence
    float* labels;    // one value per sample, for objectives that use labels
  };
  // Fills the samples [first, first + rows) of the step's batch.
  using FillBatch = std::function<void(int64_t first, int64_t rows, const Samples& samples)>;

  // Replaces the step state at the start of a run or when a run is resumed.
  void set_state(const StepState& state);

  // Computes the gradients of the weighted mean loss over the targets of the batch, times loss_scale. Also
  // computes the scalars of the update, which `state()` returns. Sets loss_weight and clip_norm, so their
  // values in `inputs` are ignored. Calls `before_each` before each micro-batch. If `before_each` throws, the
  // weights are unchanged.
  void compute_gradients(const StepInputs& inputs, const FillBatch& fill,
                         const std::function<void()>& before_each = {});
  // Like compute_gradients, but returns the resulting state and restores the previous state.
  StepState try_gradients(const StepInputs& inputs, const FillBatch& fill);
  // Clips the gradients and updates the weights, unless the step is skipped.
  void update();
  // Swaps the weights with their moving average (make_averaged). All ranks must call it.
  void swap_average();

  // begin, micro_batch and finish_gradients are the parts of compute_gradients. They are public so that each
  // part can be timed.
  void begin(const StepInputs& inputs, const FillBatch& fill);
  // `first` is the index of the micro-batch's first sample among the samples of this rank. `completes` is
  // true for the last micro-batch of a shard.
  void micro_batch(int64_t first, bool accumulate, bool completes);
  void finish_gradients();

  // Returns the state of the newest step. Waits for the device.
  const StepState& state() const;
  // A snapshot is a copy of the state after the newest update. The host can read the snapshot later: `read`
  // waits for this update, but not for work that was queued after the update. The result of `read` is valid
  // until kSnapshots more snapshots are taken.
  struct Snapshot {
    size_t slot = 0;
    DeviceEvent event;
  };
  static constexpr size_t kSnapshots = 4;
  Snapshot snapshot();
  const StepState& read(const Snapshot& snapshot) const;
  bool is_skipped() const { return state().grad_scale == 0; }
  // Returns the name of the first weight, activation or gradient of the step that is NaN or infinite. Returns
  // "" if all values are finite.
  std::string first_nonfinite();
  // Throws Error naming a trained weight that is NaN or infinite, so that such weights are not saved. All
  // ranks must call it, because each rank may store only a part of the weights.
  void require_finite_weights() const;

  const Model& model() const { return model_; }
  const ParamBuffer& weights() const { return weights_; }
  const ParamBuffer& grads() const { return grads_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  const OptimizerState& optimizer_state() const { return optimizer_state_; }
  // range_squares returns the sums of squares of ranges of the gradients. last_update returns the sums of
  // squares of the last update (Optimizer::last_update). Both functions wait for the device.
  std::vector<double> range_squares(std::span<const ElementRange> ranges) const;
  std::vector<UpdateSquares> last_update() const;
  // own_ranges returns the elements of a parameter whose gradient sums this rank stores. If the optimizer
  // state is sharded, the result contains the pieces of this rank, otherwise all elements. sum_over_processes
  // returns the sum over all ranks of a value that each rank has computed from its own ranges.
  std::vector<ElementRange> own_ranges(int id) const;
  double sum_over_processes(double own) const;
  // Returns the total time in seconds that this rank has waited for other ranks during steps.
  double waited_seconds() const { return waited_ + sums_.waited_seconds(); }
  // Returns the source of sharded weights for other passes. Returns null if this rank stores all weights.
  ShardedWeights* sharded() const { return sharded_.get(); }
  // Returns true if steps run on a device without the host waiting for each step.
  bool runs_ahead() const { return !backend_.device->is_host() && options_.communicator->size() == 1; }
  // Returns the number of bytes of gradients, optimizer state, activations and communication buffers.
  int64_t bytes() const;

 private:
  void finalize_grad_norm(bool clamped);
  std::vector<ElementRange> summed() const;
  bool is_sharded() const { return !options_.shard_map.empty(); }
  DType message_type() const { return options_.sends_bf16 ? DType::bf16 : weights_.dtype(); }
  std::vector<ElementRange> own_ranges() const;
  void share_weights();
  double waited_for_weights() const { return sharded_ ? sharded_->waited_seconds() : 0; }
  void tell_changed() const;
  TrainBatch batch(int64_t first);
  int64_t shard_samples() const { return options_.batch_size / options_.shards; }
  int64_t first_of_round(int64_t round) const;
  double sum_of_shards(const std::vector<double>& own, const char* what);
  std::vector<double> gather_waiting(double own, const char* what);
  void finish_shard(int64_t round);

  const Model& model_;
  const ParamBuffer& weights_;
  Backend backend_;
  Options options_;
  std::unique_ptr<Optimizer> optimizer_;
  ParamBuffer grads_;
  OptimizerState optimizer_state_;
  Workspace update_scratch_;
  std::unique_ptr<ShardedWeights> sharded_;
  TrainingGraph graph_;
  mutable StepState state_;  // valid if is_stale_ is false
  mutable bool is_stale_ = false;
  DeviceArray<StepState> device_state_;
  DeviceSpan<StepState> shared_;  // the state in memory that ops can access
  std::array<StepState, kSnapshots> snapshots_;
  size_t next_slot_ = 0;
  Buffer block_sums_;                   // fp64
  int64_t samples_;                     // number of samples of this rank
  std::vector<int32_t> ids_, targets_;  // [samples,n_ctx]
  std::vector<float> target_weights_;
  std::vector<uint8_t> starts_;
  std::vector<float> labels_;  // [samples]
  PackedDocuments documents_;  // documents of a micro-batch
  GradientSums sums_;
  std::vector<double> losses_;  // losses of this rank's shards so far
  double waited_ = 0;           // seconds spent waiting for scalars of other ranks
};

// Throws Error naming the first tensor with non-finite values if the newest step halted the run
// (StepState::halted).
void require_not_halted(TrainStep& step);

// Replaces the weights of a step's model by their moving average (make_averaged) while the object exists, if
// `use` is true. The destructor restores the weights. The destructor throws if the ranks cannot exchange
// their weights, but not during stack unwinding.
class AverageInModel {
 public:
  AverageInModel(Model& model, TrainStep& step, bool use);
  ~AverageInModel() noexcept(false);
  AverageInModel(const AverageInModel&) = delete;
  AverageInModel& operator=(const AverageInModel&) = delete;

 private:
  Model& model_;
  TrainStep& step_;
  std::vector<TensorView> before_;
  bool swapped_ = false;
  int exceptions_ = 0;
};

// Returns the options of TrainStep for a training config.
TrainStep::Options step_options(const TrainConfig& config, const ParamTable& table, int64_t n_ctx,
                                Communicator& processes = single_process());
std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config, const ParamTable& table);
// Returns the shard map of the optimizer state for `processes` ranks. The shard map is empty without ZeRO.
ShardMap shard_map_of(const TrainConfig& config, const ParamTable& table, int processes);

}  // namespace gpt
