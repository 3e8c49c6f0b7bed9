#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tensor/device.h"
#include "train/adamw.h"
#include "train/optimizer.h"
#include "train/param_groups.h"

namespace gpt {
namespace {

// Returns the factor of the learning rate for a matrix shape (adjust_lr_fn of torch.optim.Muon).
double adjustment(MuonAdjust adjust, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]), cols = static_cast<double>(shape[1]);
  switch (adjust) {
    case MuonAdjust::original:
      return std::sqrt(std::max(1.0, rows / cols));
    case MuonAdjust::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(rows, cols));
    case MuonAdjust::spectral_unclamped:
      return std::sqrt(rows / cols);
  }
  return 1;
}

MuonMomentum momentum_of(MuonForm form, const OptimizerSettings& s) {
  const double peak = s.muon_momentum;
  if (form == MuonForm::torch) return {.first = peak, .peak = peak, .last = peak};
  constexpr double kFirst = 0.85, kLast = 0.90, kDecline = 0.65;  // scripts/base_train.py
  const auto decline = static_cast<int64_t>(std::round(kDecline * static_cast<double>(s.steps)));
  return {.first = kFirst,
          .peak = peak,
          .last = kLast,
          .warmup = 400,
          .decline = s.steps - decline,
          .steps = s.steps};
}

// Returns the AdamW settings that nanochat uses for a parameter group.
AdamWRule nanochat_rule(ParamGroup group) {
  if (group == ParamGroup::head) return {.beta1 = 0.8, .beta2 = 0.96, .eps = 1e-10, .weight_decay = 0.01};
  if (group == ParamGroup::embedding)
    return {.beta1 = 0.8, .beta2 = 0.995, .eps = 1e-10, .weight_decay = 0.001};
  return {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-10, .weight_decay = 0};
}

TensorView shaped(const TensorView& v, const Shape& shape) {
  return make_view(v.data, v.dtype, shape, v.device);
}

class Muon : public Optimizer {
 public:
  Muon(MuonForm form, const ParamTable& table, const OptimizerSettings& settings)
      : form_(form), table_(table), settings_(settings), momentum_(momentum_of(form, settings)) {
    buffers_ = {{"m"}, {"change", {0}}};
    for (int id = 0; id < table.count(); ++id) {
      const ParamSpec& spec = table[id];
      Part& part = parts_.emplace_back(Part{.is_matrix = param_group(table, id) == ParamGroup::matrix});
      if (!spec.trainable) continue;
      if (part.is_matrix) {
        part.change = buffers_[kChange].shape[0]++;
        buffers_[kChange].params.push_back(id);
      }
      if (part.is_matrix && form == MuonForm::torch) continue;
      part.v = buffers_.size();
      const Shape longer = {std::ranges::max(spec.shape)};
      buffers_.push_back({"v." + spec.name, part.is_matrix ? longer : Shape{}, {id}});
    }
    buffers_[kChange].shape[0] = std::max<int64_t>(1, buffers_[kChange].shape[0]);
  }

  std::vector<OptimizerBuffer> buffers() const override { return buffers_; }

  ScratchNeed scratch(const KernelTable& kernels, DType dtype) const override {
    ScratchNeed need;
    for_matrices([&](const ParamSpec& spec) {
      need =
          max_need(need, muon_scratch(kernels, spec.shape[0], spec.shape[1], dtype, settings_.muon_compute));
    });
    return need;
  }

  double flops() const override {
    double flops = 0;
    for_matrices([&](const ParamSpec& spec) { flops += muon_flops(spec.shape); });
    return flops;
  }

  // A slice may contain several parameters. It always contains whole matrices, but it may contain only a part
  // of any other parameter.
  void bind(std::vector<ParamSlice> slices, const OptimizerState& state) override {
    changes_ = state[kChange];
    for (const ParamSlice& slice : slices) {
      Matrices& matrices = in_slices_.emplace_back(Matrices{.weight = slice.weight});
      for (const auto& [id, range] : params_in(slice.range, table_)) {
        add(id, slice.cut(range), state);
        if (parts_[static_cast<size_t>(id)].is_matrix)
          matrices.ranges.push_back({range.begin - slice.range.begin, range.end - slice.range.begin});
      }
    }
  }

  void update(const ExecContext& ctx, DeviceSpan<const StepState> step) const override {
    for (const Other& other : others_) {
      ctx.kernels.adamw(ctx, {.param = other.weight,
                              .grad = other.grad,
                              .m = other.m,
                              .v = other.v,
                              .ranges = {&other.range, 1},
                              .step = step});
    }
    ctx.kernels.muon(ctx, {.form = form_,
                           .matrices = matrices_,
                           .momentum = momentum_,
                           .compute = settings_.muon_compute,
                           .step = step});
  }

  std::vector<UpdateSquares> last_update(const ExecContext& ctx,
                                         DeviceSpan<const StepState> step) const override {
    std::vector<double> values(2 * others_.size()), squares(matrices_.size());
    std::vector<float> changes(static_cast<size_t>(changes_.size()));
    DeviceArray<double> device_values(&ctx.device), device_squares(&ctx.device);
    const DeviceSpan<double> shared_values = device_values.share(values, Access::write);
    const DeviceSpan<double> shared_squares = device_squares.share(squares, Access::write);
    for (size_t i = 0; i < others_.size(); ++i) {
      ctx.kernels.update_squares(ctx, {.param = others_[i].weight,
                                       .m = others_[i].m,
                                       .v = others_[i].v,
                                       .ranges = {&others_[i].range, 1},
                                       .step = step,
                                       .sums = shared_values.subspan(2 * i, 2)});
    }
    size_t first = 0;
    for (const auto& [weight, ranges] : in_slices_) {
      ctx.kernels.range_squares(
          ctx, {.x = weight, .ranges = ranges, .sums = shared_squares.subspan(first, ranges.size())});
      first += ranges.size();
    }
    device_values.enqueue_download(values);
    device_squares.enqueue_download(squares);
    enqueue_copy(changes_, make_view(changes.data(), {std::ssize(changes)}));
    ctx.device.synchronize();
    std::vector<UpdateSquares> sums(static_cast<size_t>(table_.count()));
    for (size_t i = 0; i < others_.size(); ++i)
      sums[static_cast<size_t>(others_[i].id)] = {.update = values[2 * i], .weight = values[2 * i + 1]};
    for (size_t i = 0; i < matrices_.size(); ++i) {
      const auto id = static_cast<size_t>(matrix_ids_[i]);
      sums[id] = {.update = double{changes[static_cast<size_t>(parts_[id].change)]}, .weight = squares[i]};
    }
    return sums;
  }

  std::string describe() const override {
    int64_t tensors[2] = {0, 0}, parameters[2] = {0, 0};
    for (int id = 0; id < table_.count(); ++id) {
      if (!table_[id].trainable) continue;
      ++tensors[parts_[static_cast<size_t>(id)].is_matrix];
      parameters[parts_[static_cast<size_t>(id)].is_matrix] += table_[id].size();
    }
    return fmt::format("Muon{}: {} matrices with {} parameters; AdamW: {} tensors with {} parameters",
                       form_ == MuonForm::nanochat ? " (as in nanochat)" : "", tensors[1], parameters[1],
                       tensors[0], parameters[0]);
  }

 private:
  static constexpr size_t kMoment = 0, kChange = 1;
  struct Part {
    bool is_matrix = false;
    int64_t change = 0;  // index into the buffer "change"
    size_t v = 0;        // index of the second-moment buffer in buffers_
  };

  // Stores the elements of a parameter that AdamW updates.
  struct Other {
    int id;
    AdamWRange range;
    TensorView weight, grad, m, v;
  };

  // Stores the element ranges of the matrices in a slice, relative to the start of the slice.
  struct Matrices {
    TensorView weight;
    std::vector<ElementRange> ranges = {};
  };

  void add(int id, const ParamSlice& slice, const OptimizerState& state) {
    const Part& part = parts_[static_cast<size_t>(id)];
    if (part.is_matrix) {
      GPT_ASSERT(slice.range.size() == table_[id].size());
      matrix_ids_.push_back(id);
      matrices_.push_back(matrix(id, slice, state));
      return;
    }
    const int64_t size = slice.range.size();
    others_.push_back({.id = id,
                       .range = {0, size, rule_of(id)},
                       .weight = slice.weight,
                       .grad = slice.grad,
                       .m = slice.state[kMoment],
                       .v = state[part.v].slice_flat(0, size)});
  }

  template <class F>
  void for_matrices(F&& fn) const {
    for (int id = 0; id < table_.count(); ++id) {
      if (table_[id].trainable && parts_[static_cast<size_t>(id)].is_matrix) fn(table_[id]);
    }
  }

  AdamWRule rule_of(int id) const {
    AdamWRule rule =
        form_ == MuonForm::nanochat ? nanochat_rule(param_group(table_, id)) : adamw_rule(settings_);
    if (!table_[id].decay) rule.weight_decay = 0;
    rule.lr_scale = settings_.scale(id);
    return rule;
  }

  MuonMatrix matrix(int id, const ParamSlice& slice, const OptimizerState& state) const {
    const Part& part = parts_[static_cast<size_t>(id)];
    const Shape& shape = table_[id].shape;
    const bool nanochat = form_ == MuonForm::nanochat;
    const double scale = settings_.scale(id);
    const double adjust = adjustment(nanochat ? MuonAdjust::original : settings_.muon_adjust, shape);
    return {.param = shaped(slice.weight, shape),
            .grad = shaped(slice.grad, shape),
            .m = shaped(slice.state[kMoment], shape),
            .v = nanochat ? state[part.v] : TensorView{},
            .change = changes_.slice_flat(part.change, 1),
            .rate = scale * adjust,
            .decay = scale * settings_.weight_decay * (nanochat ? adjust : 1)};
  }

  MuonForm form_;
  const ParamTable& table_;
  OptimizerSettings settings_;
  MuonMomentum momentum_;
  std::vector<OptimizerBuffer> buffers_;
  std::vector<Part> parts_;  // by parameter id
  std::vector<Other> others_;
  std::vector<MuonMatrix> matrices_;
  std::vector<int> matrix_ids_;
  std::vector<Matrices> in_slices_;
  TensorView changes_;
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const ParamTable& table, const OptimizerSettings& settings) {
  return std::make_unique<Muon>(MuonForm::torch, table, settings);
}

std::unique_ptr<Optimizer> make_muon_nanochat(const ParamTable& table, const OptimizerSettings& settings) {
  return std::make_unique<Muon>(MuonForm::nanochat, table, settings);
}

}  // namespace gpt
