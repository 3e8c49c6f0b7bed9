#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "model/params.h"
#include "train/buckets.h"
#include "train/train_config.h"

namespace gpt {

// Describes a buffer of optimizer state that persists between steps.
struct OptimizerBuffer {
  // The buffer's name in checkpoints. A buffer "m" is saved as the tensors "m.blocks.0.norm1.weight", ...
  std::string name;
  // If the shape is empty, the buffer has one value per element of `params`, or one value per element of all
  // trainable parameters if `params` is empty.
  Shape shape = {};
  // Ids of the parameters that the buffer belongs to: a single parameter, or one parameter per row of the
  // buffer. If empty, the buffer belongs to all parameters.
  std::vector<int> params = {};
};

// Holds flat views of the weights, gradients and optimizer state in one range of the trainable parameters.
// All views have the same length.
struct ParamSlice {
  ElementRange range;  // position in the buffer of all trainable parameters
  TensorView weight, grad;
  // One view per OptimizerBuffer. The view is absent if the buffer has its own shape or its own list of
  // parameters.
  std::vector<TensorView> state;
  // Returns the part of the slice that covers `part`, a range in the buffer of all trainable parameters.
  ParamSlice cut(const ElementRange& part) const;
};

// The elements of a trainable parameter, as a range in the buffer of all trainable parameters.
struct ParamRange {
  int id;
  ElementRange range;
};
// Returns the trainable parameters that overlap `range`, in order. Each result contains only the elements
// that overlap.
std::vector<ParamRange> params_in(const ElementRange& range, const ParamTable& table);

// Allocates and stores the buffers of an optimizer, initially zero. With ZeRO, each rank stores only its part
// of the buffers.
class OptimizerState {
 public:
  OptimizerState() = default;
  // `own` lists the parameter elements whose state this rank stores. If `own` is empty, the rank stores the
  // whole state. If a buffer has `params`, `own` must have at most one range per parameter.
  OptimizerState(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table, DType dtype,
                 Device* device, const std::vector<ElementRange>& own = {});

  // Returns buffer i, or the part of it that this rank stores. The shape is [elements] in the layout of the
  // parameters, or the buffer's own shape.
  TensorView operator[](size_t i) const { return buffers_[i].all; }
  // Returns the part of buffer i that belongs to parameter `id`. Requires that this rank stores the whole
  // state.
  TensorView of(size_t i, int id) const { return buffers_[i].params[id]; }
  size_t count() const { return buffers_.size(); }
  bool is_whole() const { return own_.empty(); }
  // Returns the ranges of parameter elements whose state this rank stores.
  const std::vector<ElementRange>& own() const { return own_; }
  // Returns the slices that this rank updates: one slice with all parameters, or one slice per nonempty range
  // of `own`. The views are valid as long as the buffers exist.
  std::vector<ParamSlice> slices(const ParamBuffer& weights, const ParamBuffer& grads) const;

  // Describes a state tensor as saved in checkpoints, or the part of the tensor that this rank stores.
  struct Part {
    std::string name;
    Shape shape;        // shape of the whole tensor
    int64_t begin = 0;  // index of the first element that this rank stores
    TensorView view;
  };
  const std::vector<Part>& parts() const { return parts_; }
  // Describes a tensor of the complete state, including the parts that other ranks store.
  struct Tensor {
    std::string name;
    Shape shape;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }

  // Returns the number of bytes that an OptimizerState with these buffers allocates.
  static int64_t bytes(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table, DType dtype,
                       const std::vector<ElementRange>& own = {});

 private:
  struct Entry {
    ParamBuffer params;
    Buffer own;
    TensorView all;
    bool of_all = false;  // true if the buffer has one value per parameter element
  };
  // Returns the part of buffer i that belongs to the k-th range of own_. Requires that the buffer covers all
  // parameters.
  TensorView piece(size_t i, size_t k) const;
  void add_parts(const ParamTable& table, size_t i, const std::string& name, int id, int64_t at);
  void add_shaped(const OptimizerBuffer& buffer, const ParamTable& table, const ParamLayout& layout,
                  DType dtype, Device* device);

  std::vector<Entry> buffers_;
  std::vector<ElementRange> own_;
  std::vector<int64_t> own_offset_;
  std::vector<Part> parts_;
  std::vector<Tensor> tensors_;
};

// Stores the sum of squares of a parameter's last update, and the sum of squares of its weights after the
// update.
struct UpdateSquares {
  double update = 0, weight = 0;
};

// Base class of optimizers. All values that change from step to step are stored in an OptimizerState. An
// optimizer updates the slices that it receives in `bind`, and does not depend on how parameters are sharded
// over ranks.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::vector<OptimizerBuffer> buffers() const = 0;
  // Returns the scratch memory that the ops of an update need, for parameters of this dtype.
  virtual ScratchNeed scratch(const KernelTable&, DType) const { return {}; }
  // Returns the FLOPs of the matrix multiplications in an update.
  virtual double flops() const { return 0; }
  // Called once before the first update, with the slices to update. `state` and the memory of the slices must
  // outlive the optimizer.
  virtual void bind(std::vector<ParamSlice> slices, const OptimizerState& state) = 0;
  // Runs the ops that update the slices. The ops read the learning rate, the number of updates and the
  // gradient factor `grad_scale` from `step`. If `grad_scale` is 0, the ops change nothing.
  virtual void update(const ExecContext& ctx, DeviceSpan<const StepState> step) const = 0;
  // Returns the sums of squares of the last update, indexed by parameter id. Only the elements of the slices
  // are counted. Must be called after `update`. Waits for the device.
  virtual std::vector<UpdateSquares> last_update(const ExecContext& ctx,
                                                 DeviceSpan<const StepState> step) const = 0;
  // Returns a one-line summary: "AdamW: decay 0.1 on 26 tensors with 10,813,440 parameters, none on 51 ...".
  virtual std::string describe() const = 0;
};

struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  std::vector<double> lr_scale = {};  // learning rate factor by parameter id; empty: 1 for all parameters
  double muon_momentum = 0.95;
  MuonAdjust muon_adjust = MuonAdjust::original;
  DType muon_compute = DType::f32;  // dtype of Muon's matrix multiplications: fp32 or bf16
  int64_t steps = 1;                // total steps of the run, used by schedules

  double scale(int id) const { return lr_scale.empty() ? 1 : lr_scale[static_cast<size_t>(id)]; }
};

// Specifies how ZeRO may shard the state of an optimizer: not at all, at any element, or only by whole
// matrices.
enum class Divides : uint8_t { not_at_all, at_elements, at_matrices };

// Describes an optimizer that the config key "optimizer" can select by name.
struct OptimizerType {
  std::string name;
  // `table` must outlive the returned optimizer.
  std::unique_ptr<Optimizer> (*make)(const ParamTable& table, const OptimizerSettings& settings);
  Divides divides = Divides::not_at_all;
};
// Returns the list of registered optimizers; "adamw" is the first. Custom optimizers must be added before
// they are first used. Not thread-safe.
std::vector<OptimizerType>& optimizer_types();
// Throws invalid_argument if no optimizer has this name.
const OptimizerType& require_optimizer(const std::string& name);

// Creates AdamW (Loshchilov & Hutter 2019). Weight decay applies only to tensors with two or more dimensions.
std::unique_ptr<Optimizer> make_adamw(const ParamTable& table, const OptimizerSettings& settings);

// Creates an optimizer that updates the matrices of the layers with Muon and all other parameters with AdamW.
// make_muon matches torch.optim.Muon combined with torch.optim.AdamW. make_muon_nanochat matches MuonAdamW of
// nanochat 92d63d4. It uses nanochat's betas, eps and weight decay for each parameter group, and nanochat's
// schedules for Muon's momentum and weight decay (MuonArgs in kernels/train_ops.h).
std::unique_ptr<Optimizer> make_muon(const ParamTable& table, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_muon_nanochat(const ParamTable& table, const OptimizerSettings& settings);

// Wraps an optimizer. After each update, the wrapper also updates a moving average of the weights. The
// average is stored in the last buffer, kEma.
inline constexpr const char* kEma = "ema";
std::unique_ptr<Optimizer> make_averaged(std::unique_ptr<Optimizer> optimizer, double decay);

}  // namespace gpt
