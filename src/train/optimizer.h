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

// A buffer that an optimizer keeps from step to step.
struct OptimizerBuffer {
  std::string name;  // name in checkpoints: "m" is saved as "m.blocks.0.norm1.weight", ...
  Shape shape = {};  // empty: one value for each element of `params`, or of all trainable parameters
  std::vector<int> params = {};  // the parameters of the buffer: one, or one for each row; empty: all
};

// Elements of the trainable parameters that are updated together, as flat views of equal length.
struct ParamSlice {
  ElementRange range;  // in the buffer of all trainable parameters
  TensorView weight, grad;
  // By OptimizerBuffer; absent if the buffer has a shape or parameters of its own.
  std::vector<TensorView> state;
  // Returns the part of the slice that holds `part`, a range in the buffer of all trainable parameters.
  ParamSlice cut(const ElementRange& part) const;
};

// The memory of an optimizer's buffers, initially zero. With ZeRO, a rank stores only a part of it.
class OptimizerState {
 public:
  OptimizerState() = default;
  // own: the parameter elements whose state this rank stores; empty: all. If buffers have `params`, `own`
  // must have at most one range in each parameter.
  OptimizerState(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table, DType dtype,
                 Device* device, const std::vector<ElementRange>& own = {});

  // Returns buffer i or its stored part: [elements] in the layout of the parameters, or in its own shape.
  TensorView operator[](size_t i) const { return buffers_[i].all; }
  // Returns the part of buffer i that belongs to a parameter. Requires that the whole state is stored.
  TensorView of(size_t i, int id) const { return buffers_[i].params[id]; }
  size_t count() const { return buffers_.size(); }
  bool is_whole() const { return own_.empty(); }
  // Returns the stored ranges of the parameter elements.
  const std::vector<ElementRange>& own() const { return own_; }
  // Returns the slices that this rank updates: one slice with all parameters, or one for each nonempty range
  // of `own`. The views are valid as long as the buffers.
  std::vector<ParamSlice> slices(const ParamBuffer& weights, const ParamBuffer& grads) const;

  // A tensor of the state as saved in checkpoints, or the part of it that this rank stores.
  struct Part {
    std::string name;
    Shape shape;        // of the whole tensor
    int64_t begin = 0;  // index of the first stored element
    TensorView view;
  };
  const std::vector<Part>& parts() const { return parts_; }
  // A tensor of the whole state, including the parts that other ranks store.
  struct Tensor {
    std::string name;
    Shape shape;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }

  // Returns the bytes that an OptimizerState with these buffers needs.
  static int64_t bytes(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table, DType dtype,
                       const std::vector<ElementRange>& own = {});

 private:
  struct Entry {
    ParamBuffer params;
    Buffer own;
    TensorView all;
    bool of_all = false;  // has a value for each element of the parameters
  };
  // Returns the part of buffer i, which covers all parameters, in range k.
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

// Sums of squares of a parameter's last update and of its weights after it.
struct UpdateSquares {
  double update = 0, weight = 0;
};

// An update rule for weights. OptimizerState stores everything that changes from step to step. An optimizer
// updates the slices that `bind` receives and does not know how parameters are divided among ranks.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::vector<OptimizerBuffer> buffers() const = 0;
  // Returns the scratch memory of the ops of an update, for parameters of this dtype.
  virtual ScratchNeed scratch(const KernelTable&, DType) const { return {}; }
  // Returns the FLOPs of the matrix products in an update.
  virtual double flops() const { return 0; }
  // Called once, before the first update, with the slices to update. `state` and the memory of the slices
  // must outlive the optimizer.
  virtual void bind(std::vector<ParamSlice> slices, const OptimizerState& state) = 0;
  // Calls the ops that update the slices. The ops read the learning rate, the number of updates and
  // grad_scale (the factor of the gradients) from `step`, and change nothing if grad_scale is 0.
  virtual void update(const ExecContext& ctx, DeviceSpan<const StepState> step) const = 0;
  // Returns the sums of squares of the last update, by parameter id. Counts only the elements of the slices.
  // Call it after the update. Waits for the device.
  virtual std::vector<UpdateSquares> last_update(const ExecContext& ctx,
                                                 DeviceSpan<const StepState> step) const = 0;
  // Returns a line for people: "AdamW: decay 0.1 on 26 tensors with 10,813,440 parameters, none on 51 ...".
  virtual std::string describe() const = 0;
};

struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  std::vector<double> lr_scale = {};  // learning rate factor by parameter id; empty: 1 for all
  double muon_momentum = 0.95;
  MuonAdjust muon_adjust = MuonAdjust::original;
  DType muon_compute = DType::f32;  // dtype of its matrix products; fp32 or bf16
  int64_t steps = 1;                // total steps of the run, for schedules

  double scale(int id) const { return lr_scale.empty() ? 1 : lr_scale[static_cast<size_t>(id)]; }
};

// How ZeRO can shard an optimizer: not at all, at any element, or by whole matrices of the layers.
enum class Divides : uint8_t { not_at_all, at_elements, at_matrices };

// A named optimizer for the config key "optimizer".
struct OptimizerType {
  std::string name;
  // The table must outlive the optimizer.
  std::unique_ptr<Optimizer> (*make)(const ParamTable& table, const OptimizerSettings& settings);
  Divides divides = Divides::not_at_all;
};
// Returns the registered optimizers, "adamw" first. Add custom optimizers before their first use. Not
// thread-safe.
std::vector<OptimizerType>& optimizer_types();
// Throws invalid_argument for an unknown name.
const OptimizerType& require_optimizer(const std::string& name);

// AdamW (Loshchilov & Hutter 2019), with weight decay only on tensors of two or more dimensions.
std::unique_ptr<Optimizer> make_adamw(const ParamTable& table, const OptimizerSettings& settings);

// Muon for the matrices of the layers and AdamW for all other parameters. make_muon is torch.optim.Muon
// combined with torch.optim.AdamW. make_muon_nanochat is MuonAdamW of nanochat 92d63d4. It uses nanochat's
// betas, eps and weight decay for each parameter group, and its schedules of momentum and of Muon's weight
// decay (MuonArgs in kernels/train_ops.h).
std::unique_ptr<Optimizer> make_muon(const ParamTable& table, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_muon_nanochat(const ParamTable& table, const OptimizerSettings& settings);

// Wraps an optimizer. After each update it also updates a moving average of the weights in its last buffer,
// kEma.
inline constexpr const char* kEma = "ema";
std::unique_ptr<Optimizer> make_averaged(std::unique_ptr<Optimizer> optimizer, double decay);

}  // namespace gpt
