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

// Something that an optimizer keeps from step to step.
struct OptimizerBuffer {
  std::string name;  // in checkpoints: "m" is saved as "m.blocks.0.norm1.weight", ...
  Shape shape = {};  // none: a number for every number of the parameters that are trained, or of `params`
  std::vector<int> params = {};  // what it belongs to: one parameter, or one for each row; or everything
};

// The memory of what an optimizer keeps, all zero at first. With ZeRO a process keeps a part of it.
class OptimizerState {
 public:
  OptimizerState() = default;
  // own: the elements of parameters whose part is kept here; none: everything. Where buffers have parameters
  // of their own, at most one range of each.
  OptimizerState(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table, DType dtype,
                 Device* device, const std::vector<ElementRange>& own = {});

  // Buffer i, or what is kept of it: laid out like the parameters, [elements], or in its own shape.
  TensorView operator[](size_t i) const { return buffers_[i].all; }
  // Its part that belongs to a parameter, where everything is kept.
  TensorView of(size_t i, int id) const { return buffers_[i].params[id]; }
  size_t count() const { return buffers_.size(); }
  bool is_whole() const { return own_.empty(); }
  // What is kept: where it lies among all parameters, and what buffer i, which is of all parameters, has of
  // range k.
  const std::vector<ElementRange>& own() const { return own_; }
  TensorView piece(size_t i, size_t k) const;

  // A tensor of it in files, or what is kept of one: from element `begin` on.
  struct Part {
    std::string name;
    Shape shape;  // of the tensor
    int64_t begin = 0;
    TensorView view;
  };
  const std::vector<Part>& parts() const { return parts_; }
  // All tensors, whoever keeps them.
  struct Tensor {
    std::string name;
    Shape shape;
  };
  const std::vector<Tensor>& tensors() const { return tensors_; }

  // Bytes of such memory.
  static int64_t bytes(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table, DType dtype,
                       const std::vector<ElementRange>& own = {});

 private:
  struct Entry {
    ParamBuffer params;
    Buffer own;
    TensorView all;
  };
  void add_parts(const ParamTable& table, size_t i, const std::string& name, int id, int64_t at);
  void add_shaped(const OptimizerBuffer& buffer, const ParamTable& table, const ParamLayout& layout,
                  DType dtype, Device* device);

  std::vector<Entry> buffers_;
  std::vector<ElementRange> own_;
  std::vector<int64_t> own_offset_;
  std::vector<Part> parts_;
  std::vector<Tensor> tensors_;
};

// Sums of squares, of the last update and of the weights that it changed.
struct UpdateSquares {
  double update = 0, weight = 0;
};

// A rule that turns gradients into new weights. Holds no numbers that change: those are in OptimizerState.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::vector<OptimizerBuffer> buffers() const = 0;
  // What the ops of an update need, for parameters of that type.
  virtual ScratchNeed scratch(const KernelTable&, DType) const { return {}; }
  // Of the products in an update.
  virtual double flops() const { return 0; }
  // Calls the ops that update all trainable parameters. They read the learning rate, the number of updates
  // and grad_scale, the factor of the gradients, from `step`, and change nothing if grad_scale is 0.
  virtual void update(const ExecContext& ctx, const ParamBuffer& weights, const ParamBuffer& grads,
                      const OptimizerState& state, DeviceSpan<const StepState> step) const = 0;
  // Returns the sums of squares of the last update, by parameter id: of the part of each parameter that is
  // kept here, zero for the others. Call it after the update; waits for the device.
  virtual std::vector<UpdateSquares> last_update(const ExecContext& ctx, const ParamBuffer& weights,
                                                 const OptimizerState& state,
                                                 DeviceSpan<const StepState> step) const = 0;
  // "AdamW: decay 0.1 on 26 tensors with 10,813,440 parameters, none on 51 tensors with 21,504"
  virtual std::string describe() const = 0;
};

struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  std::vector<double> lr_scale = {};  // by parameter id, of the step's learning rate; none: 1 for all
  double muon_momentum = 0.95;
  MuonAdjust muon_adjust = MuonAdjust::original;
  DType muon_compute = DType::f32;     // of its products; fp32 or bf16
  int64_t steps = 1;                   // of the run, for schedules
  std::vector<ElementRange> own = {};  // what it updates, with ZeRO (Divides); none: everything

  double scale(int id) const { return lr_scale.empty() ? 1 : lr_scale[static_cast<size_t>(id)]; }
};

// How an optimizer is divided among processes with ZeRO: not at all, at any element, or with whole matrices
// of the blocks.
enum class Divides : uint8_t { not_at_all, at_elements, at_matrices };

// An optimizer that a config can name.
struct OptimizerType {
  std::string name;
  // The table must outlive the optimizer.
  std::unique_ptr<Optimizer> (*make)(const ParamTable& table, const OptimizerSettings& settings);
  Divides divides = Divides::not_at_all;
};
// "adamw" first. Whoever has one of its own adds it before it is asked for; not from several threads.
std::vector<OptimizerType>& optimizer_types();
// Throws invalid_argument for an unknown name.
const OptimizerType& require_optimizer(const std::string& name);

// AdamW (Loshchilov & Hutter 2019): decay on tensors of two or more dimensions only.
std::unique_ptr<Optimizer> make_adamw(const ParamTable& table, const OptimizerSettings& settings);

// Muon for the matrices of the blocks, AdamW for everything else: as torch.optim.Muon beside
// torch.optim.AdamW, and as MuonAdamW of nanochat 92d63d4 with the betas, eps and decays of its groups and
// the schedules of its momentum and of Muon's decay (MuonArgs in kernels/ops.h).
std::unique_ptr<Optimizer> make_muon(const ParamTable& table, const OptimizerSettings& settings);
std::unique_ptr<Optimizer> make_muon_nanochat(const ParamTable& table, const OptimizerSettings& settings);

// An optimizer that also averages the weights after its updates, in its last buffer, kEma.
inline constexpr const char* kEma = "ema";
std::unique_ptr<Optimizer> make_averaged(std::unique_ptr<Optimizer> optimizer, double decay);

}  // namespace gpt
