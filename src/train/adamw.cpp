#include <fmt/format.h>

#include "tensor/device.h"
#include "train/adamw.h"

namespace gpt {
namespace {

// Neighbours with the same decay and rate form one range. Padding belongs to the range before it: it is zero,
// and stays zero.
std::vector<AdamWRange> ranges_of(const ParamTable& table, const OptimizerSettings& settings) {
  const ParamLayout layout(table);
  std::vector<AdamWRange> ranges;
  for (int id = 0; id < table.count(); ++id) {
    if (!table[id].trainable) continue;
    const double decay = table[id].decay ? settings.weight_decay : 0, scale = settings.scale(id);
    const int64_t begin = layout.offset[static_cast<size_t>(id)];
    if (!ranges.empty()) ranges.back().end = begin;
    if (ranges.empty() || ranges.back().weight_decay != decay || ranges.back().lr_scale != scale)
      ranges.push_back({begin, begin, decay, scale});
  }
  if (!ranges.empty()) ranges.back().end = layout.elements;
  return ranges;
}

// Their parts in a piece of the buffer, as elements of that.
std::vector<AdamWRange> ranges_in(const ElementRange& piece, const std::vector<AdamWRange>& ranges) {
  std::vector<AdamWRange> inside;
  for (AdamWRange range : ranges) {
    const ElementRange both = common(piece, {range.begin, range.end});
    if (both.size() == 0) continue;
    range.begin = both.begin - piece.begin;
    range.end = both.end - piece.begin;
    inside.push_back(range);
  }
  return inside;
}

class AdamW : public Optimizer {
 public:
  AdamW(const ParamTable& table, const OptimizerSettings& settings)
      : table_(table), layout_(table), settings_(settings) {
    const std::vector<AdamWRange> ranges = ranges_of(table, settings);
    const std::vector<ElementRange> whole = {{0, layout_.elements}};
    for (const ElementRange& piece : settings.own.empty() ? whole : settings.own)
      pieces_.push_back({piece, ranges_in(piece, ranges)});
  }

  std::vector<OptimizerBuffer> buffers() const override { return {{"m"}, {"v"}}; }

  void update(const ExecContext& ctx, const ParamBuffer& weights, const ParamBuffer& grads,
              const OptimizerState& state, DeviceSpan<const StepState> step) const override {
    for (size_t k = 0; k < pieces_.size(); ++k) {
      const ElementRange& range = pieces_[k].range;
      if (range.size() == 0) continue;
      ctx.kernels.adamw(ctx, {.param = weights.range(range.begin, range.end),
                              .grad = grads.range(range.begin, range.end),
                              .m = state.is_whole() ? state[0] : state.piece(0, k),
                              .v = state.is_whole() ? state[1] : state.piece(1, k),
                              .ranges = pieces_[k].ranges,
                              .beta1 = settings_.beta1,
                              .beta2 = settings_.beta2,
                              .eps = settings_.eps,
                              .step = step});
    }
  }

  std::vector<UpdateSquares> last_update(const ExecContext& ctx, const ParamBuffer& weights,
                                         const OptimizerState& state,
                                         DeviceSpan<const StepState> step) const override {
    std::vector<UpdateSquares> sums(static_cast<size_t>(table_.count()));
    for (size_t k = 0; k < pieces_.size(); ++k) {
      const ElementRange& piece = pieces_[k].range;
      if (piece.size() == 0) continue;
      std::vector<int> ids;
      std::vector<AdamWRange> ranges;
      for (int id = 0; id < table_.count(); ++id) {
        if (!table_[id].trainable) continue;
        const int64_t at = layout_.offset[static_cast<size_t>(id)];
        const ElementRange both = common(piece, {at, at + table_[id].size()});
        if (both.size() == 0) continue;
        ids.push_back(id);
        ranges.push_back({both.begin - piece.begin, both.end - piece.begin,
                          table_[id].decay ? settings_.weight_decay : 0, settings_.scale(id)});
      }
      std::vector<double> values(2 * ranges.size());
      DeviceArray<double> device_values(&ctx.device);
      update_squares(ctx, adamw_rule(settings_), weights.range(piece.begin, piece.end),
                     state.is_whole() ? state[0] : state.piece(0, k),
                     state.is_whole() ? state[1] : state.piece(1, k), ranges, step,
                     device_values.share(values, Access::write));
      device_values.download(values);
      for (size_t i = 0; i < ids.size(); ++i) {
        UpdateSquares& sum = sums[static_cast<size_t>(ids[i])];
        sum.update += values[2 * i];
        sum.weight += values[2 * i + 1];
      }
    }
    return sums;
  }

  std::string describe() const override {
    int64_t tensors[2] = {0, 0}, parameters[2] = {0, 0};
    for (const ParamSpec& spec : table_.specs()) {
      if (!spec.trainable) continue;
      ++tensors[spec.decay];
      parameters[spec.decay] += spec.size();
    }
    return fmt::format("AdamW: decay {} on {} tensors with {} parameters, none on {} tensors with {}",
                       settings_.weight_decay, tensors[1], parameters[1], tensors[0], parameters[0]);
  }

 private:
  struct Piece {
    ElementRange range;
    std::vector<AdamWRange> ranges;
  };
  const ParamTable& table_;
  ParamLayout layout_;
  OptimizerSettings settings_;
  std::vector<Piece> pieces_;
};

}  // namespace

void update_squares(const ExecContext& ctx, const AdamWRule& rule, const TensorView& param,
                    const TensorView& m, const TensorView& v, std::span<const AdamWRange> ranges,
                    DeviceSpan<const StepState> step, DeviceSpan<double> sums) {
  ctx.kernels.update_squares(ctx, {.param = param,
                                   .m = m,
                                   .v = v,
                                   .ranges = ranges,
                                   .beta1 = rule.beta1,
                                   .beta2 = rule.beta2,
                                   .eps = rule.eps,
                                   .step = step,
                                   .sums = sums});
}

std::unique_ptr<Optimizer> make_adamw(const ParamTable& table, const OptimizerSettings& settings) {
  return std::make_unique<AdamW>(table, settings);
}

}  // namespace gpt
