#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tensor/device.h"
#include "train/adamw.h"
#include "train/optimizer.h"
#include "train/param_groups.h"

namespace gpt {
namespace {

// torch.optim.Muon's adjust_lr_fn.
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

// nanochat's AdamW groups.
AdamWRule nanochat_rule(ParamGroup group) {
  if (group == ParamGroup::head) return {.beta1 = 0.8, .beta2 = 0.96, .eps = 1e-10, .weight_decay = 0.01};
  if (group == ParamGroup::embedding)
    return {.beta1 = 0.8, .beta2 = 0.995, .eps = 1e-10, .weight_decay = 0.001};
  return {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-10, .weight_decay = 0};
}

TensorView flat(const TensorView& v, int64_t from, int64_t n) {
  return make_view(static_cast<std::byte*>(v.data) + from * static_cast<int64_t>(dtype_size(v.dtype)),
                   v.dtype, {n}, v.device);
}

TensorView shaped(const TensorView& v, const Shape& shape) {
  return make_view(v.data, v.dtype, shape, v.device);
}

class Muon : public Optimizer {
 public:
  Muon(MuonForm form, const ParamTable& table, const OptimizerSettings& settings)
      : form_(form),
        table_(table),
        layout_(table),
        settings_(settings),
        momentum_(momentum_of(form, settings)) {
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
    for (const ElementRange& range : settings.own)
      own_ids_.push_back(id_at(table, range));
    matrices_.reserve(static_cast<size_t>(buffers_[kChange].shape[0]));
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

  void update(const ExecContext& ctx, const ParamBuffer& weights, const ParamBuffer& grads,
              const OptimizerState& state, DeviceSpan<const StepState> step) const override {
    matrices_.clear();
    for_own(state, [&](const Own& own) {
      const int id = own.id;
      if (parts_[static_cast<size_t>(id)].is_matrix) {
        matrices_.push_back(matrix(own, weights, grads, state));
        return;
      }
      const int64_t size = own.range.size();
      const AdamWRange range{0, size, rule_of(id)};
      ctx.kernels.adamw(ctx, {.param = flat(weights[id], own.range.begin, size),
                              .grad = flat(grads[id], own.range.begin, size),
                              .m = flat(own.m, 0, size),
                              .v = flat(state[parts_[static_cast<size_t>(id)].v], 0, size),
                              .ranges = {&range, 1},
                              .step = step});
    });
    ctx.kernels.muon(ctx, {.form = form_,
                           .matrices = matrices_,
                           .momentum = momentum_,
                           .compute = settings_.muon_compute,
                           .step = step});
  }

  std::vector<UpdateSquares> last_update(const ExecContext& ctx, const ParamBuffer& weights,
                                         const OptimizerState& state,
                                         DeviceSpan<const StepState> step) const override {
    std::vector<double> values(2 * static_cast<size_t>(table_.count()));  // of AdamW, by parameter
    DeviceArray<double> device_values(&ctx.device), device_squares(&ctx.device);
    const DeviceSpan<double> shared_values = device_values.share(values, Access::write);
    std::vector<int> matrices, others;
    std::vector<ElementRange> ranges;
    for_own(state, [&](const Own& own) {
      const Part& part = parts_[static_cast<size_t>(own.id)];
      const int64_t size = own.range.size();
      if (part.is_matrix) {
        const int64_t at = layout_.offset[static_cast<size_t>(own.id)];
        matrices.push_back(own.id);
        ranges.push_back({at, at + size});
        return;
      }
      const AdamWRange range{0, size, rule_of(own.id)};
      others.push_back(own.id);
      ctx.kernels.update_squares(ctx, {.param = flat(weights[own.id], own.range.begin, size),
                                       .m = flat(own.m, 0, size),
                                       .v = flat(state[part.v], 0, size),
                                       .ranges = {&range, 1},
                                       .step = step,
                                       .sums = shared_values.subspan(2 * static_cast<size_t>(own.id), 2)});
    });
    std::vector<double> squares(ranges.size());
    ctx.kernels.range_squares(
        ctx, {.x = weights.all(), .ranges = ranges, .sums = device_squares.share(squares, Access::write)});
    std::vector<float> changes(static_cast<size_t>(state[kChange].size()));
    device_values.enqueue_download(values);
    device_squares.enqueue_download(squares);
    enqueue_copy(state[kChange], make_view(changes.data(), {std::ssize(changes)}));
    ctx.device.synchronize();
    std::vector<UpdateSquares> sums(static_cast<size_t>(table_.count()));
    for (const int i : others) {
      const auto id = static_cast<size_t>(i);
      sums[id] = {.update = values[2 * id], .weight = values[2 * id + 1]};
    }
    for (size_t i = 0; i < matrices.size(); ++i) {
      const auto id = static_cast<size_t>(matrices[i]);
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
    return fmt::format("Muon{}: {} matrices with {} parameters; AdamW: {} tensors with {}",
                       form_ == MuonForm::nanochat ? " as nanochat has it" : "", tensors[1], parameters[1],
                       tensors[0], parameters[0]);
  }

 private:
  static constexpr size_t kMoment = 0, kChange = 1;
  struct Part {
    bool is_matrix = false;
    int64_t change = 0;  // where in the buffer of changes
    size_t v = 0;        // the buffer
  };

  // What is updated here of a parameter, in elements of it.
  struct Own {
    int id;
    ElementRange range;
    TensorView m;
  };
  template <class F>
  void for_own(const OptimizerState& state, F&& fn) const {
    for (int id = 0; state.is_whole() && id < table_.count(); ++id) {
      if (table_[id].trainable) fn(Own{id, {0, table_[id].size()}, state.of(kMoment, id)});
    }
    for (size_t k = 0; k < state.own().size(); ++k) {
      const int id = own_ids_[k];
      if (id < 0) continue;
      const int64_t at = layout_.offset[static_cast<size_t>(id)];
      const ElementRange& range = state.own()[k];
      TensorView m = state.piece(kMoment, k);
      if (parts_[static_cast<size_t>(id)].is_matrix) m = shaped(m, table_[id].shape);
      fn(Own{id, {range.begin - at, range.end - at}, m});
    }
  }

  // The parameter that a range lies in; -1 of an empty one.
  int id_at(const ParamTable& table, const ElementRange& range) const {
    for (int id = 0; range.size() > 0 && id < table.count(); ++id) {
      const int64_t at = layout_.offset[static_cast<size_t>(id)];
      if (at >= 0 && range.begin >= at && range.end <= at + table[id].size()) return id;
    }
    return -1;
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

  MuonMatrix matrix(const Own& own, const ParamBuffer& weights, const ParamBuffer& grads,
                    const OptimizerState& state) const {
    const int id = own.id;
    const Part& part = parts_[static_cast<size_t>(id)];
    const bool nanochat = form_ == MuonForm::nanochat;
    const double scale = settings_.scale(id);
    const double adjust =
        adjustment(nanochat ? MuonAdjust::original : settings_.muon_adjust, table_[id].shape);
    return {.param = weights[id],
            .grad = grads[id],
            .m = own.m,
            .v = nanochat ? state[part.v] : TensorView{},
            .change = flat(state[kChange], part.change, 1),
            .rate = scale * adjust,
            .decay = scale * settings_.weight_decay * (nanochat ? adjust : 1)};
  }

  MuonForm form_;
  const ParamTable& table_;
  ParamLayout layout_;
  OptimizerSettings settings_;
  MuonMomentum momentum_;
  std::vector<OptimizerBuffer> buffers_;
  std::vector<Part> parts_;                   // by parameter id
  std::vector<int> own_ids_;                  // of the ranges of OptimizerSettings
  mutable std::vector<MuonMatrix> matrices_;  // of an update, which allocates nothing
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const ParamTable& table, const OptimizerSettings& settings) {
  return std::make_unique<Muon>(MuonForm::torch, table, settings);
}

std::unique_ptr<Optimizer> make_muon_nanochat(const ParamTable& table, const OptimizerSettings& settings) {
  return std::make_unique<Muon>(MuonForm::nanochat, table, settings);
}

}  // namespace gpt
