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

// One training step: forward and backward passes over the micro-batches of a batch, the norm of the
// gradients, clipping, the optimizer's update. Used by `gpt train`, and by all that measures or checks what
// it does. A batch is cut into shards, whose gradients are added in their order: where several processes
// train together each computes some of them, gradients are exchanged while the backward pass still runs, and
// all make the same update.
class TrainStep {
 public:
  struct Options {
    // Samples, of all processes together; a shard is a multiple of micro_batch.
    int64_t batch_size = 1, micro_batch = 1;
    int64_t shards = 1;  // of a batch, a multiple of the number of processes
    // What each process updates and keeps of the optimizer's state (ZeRO 1); none: all do the same. The
    // optimizer knows its part. And whether each keeps memory for its own sums of gradients only (ZeRO 2),
    // for which a micro-batch is a shard.
    ShardMap shard_map = {};
    bool divides_gradients = false;
    bool divides_weights = false;  // and keeps only its part of the weights between passes (ZeRO 3)
    bool sends_bf16 = false;       // gradients, and their sums, where there are several processes
    int64_t n_ctx = 0;             // tokens of a sample
    TrainingGraph::Options graph = {};
    double clip_norm = 0, clip_value = 0;  // 0: off
    Communicator* communicator = &single_process();
  };
  // The model's weights that are trained lie in `weights`, in memory of the backend; both must outlive it.
  TrainStep(const Model& model, const ParamBuffer& weights, std::unique_ptr<Optimizer> optimizer,
            const Backend& backend, const Options& options);

  ~TrainStep();                          // waits for the device, which writes to its snapshots
  TrainStep(const TrainStep&) = delete;  // ops have the address of its state
  TrainStep& operator=(const TrainStep&) = delete;

  // Memory for samples, [rows,n_ctx] and labels [rows]. Before they are filled weights are 1, starts and
  // labels 0.
  struct Samples {
    int32_t *ids, *targets;
    float* weights;
    uint8_t* starts;  // 1: a sequence begins here, as one does with each sample
    float* labels;    // what an objective wants to know of a sample
  };
  // Writes samples [first, first + rows) of the step's batch.
  using FillBatch = std::function<void(int64_t first, int64_t rows, const Samples& samples)>;

  // Replaces the state of the steps: at the start of a run, or of its continuation.
  void set_state(const StepState& state);

  // Computes the gradients of the mean loss over the targets of the batch, weighted, times loss_scale; and
  // what the update will do, see state(). loss_weight and clip_norm of `inputs` are set here. before_each is
  // called before each micro-batch; what it throws leaves the weights as they were.
  void compute_gradients(const StepInputs& inputs, const FillBatch& fill,
                         const std::function<void()>& before_each = {});
  // The same without a trace: returns the state after it, and restores the state from before.
  StepState try_gradients(const StepInputs& inputs, const FillBatch& fill);
  // Clips, and changes the weights unless the step is skipped.
  void update();
  // Exchanges the weights with their average (make_averaged), in all processes.
  void swap_average();

  // The parts of compute_gradients, for measurements.
  void begin(const StepInputs& inputs, const FillBatch& fill);
  // first: among the samples of this process. completes: the gradients of a shard.
  void micro_batch(int64_t first, bool accumulate, bool completes);
  void finish_gradients();

  // The state of the newest step. Waits for the device.
  const StepState& state() const;
  // The state after the newest update, to be read later. `read` waits for that step alone and not for what
  // was queued after it. The result is valid until kSnapshots more snapshots were taken.
  struct Snapshot {
    size_t slot = 0;
    DeviceEvent event;
  };
  static constexpr size_t kSnapshots = 4;
  Snapshot snapshot();
  const StepState& read(const Snapshot& snapshot) const;
  bool is_skipped() const { return state().grad_scale == 0; }
  // The first weight, activation or gradient of the step that is NaN or infinite, for a message; "" if none
  // is.
  std::string first_nonfinite();
  // Throws Error where a trained weight is NaN or infinite, naming it: such weights are not worth saving.
  // Every process calls it, since each may keep only a part of the weights.
  void require_finite_weights() const;

  const Model& model() const { return model_; }
  const ParamBuffer& weights() const { return weights_; }
  const ParamBuffer& grads() const { return grads_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  const OptimizerState& optimizer_state() const { return optimizer_state_; }
  // The sums of squares of ranges of the gradients, and of the last update (Optimizer::last_update); both
  // wait for the device.
  std::vector<double> range_squares(std::span<const ElementRange> ranges) const;
  std::vector<UpdateSquares> last_update() const;
  // What this process has of the sums of a parameter's gradient, in elements of it: its pieces where the
  // optimizer's state is divided, else everything. And a sum over what all have.
  std::vector<ElementRange> own_ranges(int id) const;
  double sum_over_processes(double own) const;
  // That this process has waited for others in its steps so far.
  double waited_seconds() const { return waited_ + sums_.waited_seconds(); }
  // Where other passes get weights that are divided from; null: all are here.
  ShardedWeights* sharded() const { return sharded_.get(); }
  // Whether steps run on a device without the host waiting for each of them.
  bool runs_ahead() const { return !backend_.device->is_host() && options_.communicator->size() == 1; }
  // Of gradients, optimizer and activations.
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
  mutable StepState state_;  // if it is not stale
  mutable bool is_stale_ = false;
  DeviceArray<StepState> device_state_;
  DeviceSpan<StepState> shared_;  // the state as ops see it
  std::array<StepState, kSnapshots> snapshots_;
  size_t next_slot_ = 0;
  Buffer block_sums_;                   // fp64
  int64_t samples_;                     // of this process
  std::vector<int32_t> ids_, targets_;  // [samples,n_ctx]
  std::vector<float> target_weights_;
  std::vector<uint8_t> starts_;
  std::vector<float> labels_;  // [samples]
  PackedDocuments documents_;  // of a micro-batch
  GradientSums sums_;
  std::vector<double> losses_;  // of the shards of this process so far
  double waited_ = 0;           // for numbers
};

// Throws Error, naming the first offending tensor, if the newest step halted the run (StepState::halted).
void require_not_halted(TrainStep& step);

// As long as it lives, the weights of a step's model are their average (make_averaged), if `use` says so. The
// destructor throws where ranks cannot exchange their weights, unless another exception is on its way.
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

// What a run's config says of its steps.
TrainStep::Options step_options(const TrainConfig& config, const ParamTable& table, int64_t n_ctx,
                                Communicator& processes = single_process());
std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config, const ParamTable& table);
// What each of so many processes keeps of the optimizer's state.
ShardMap shard_map_of(const TrainConfig& config, const ParamTable& table, int processes);

}  // namespace gpt
