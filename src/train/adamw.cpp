#include <fmt/format.h>

#include "tensor/device.h"
#include "train/adamw.h"

namespace gpt {
namespace {

AdamWRule rule_of(const ParamTable& table, const OptimizerSettings& settings, int id) {
  AdamWRule rule = adamw_rule(settings);
  if (!table[id].decay) rule.weight_decay = 0;
  rule.lr_scale = settings.scale(id);
  return rule;
}

// Neighbours with the same rule form one range. Padding belongs to the range before it: it is zero,
// and stays zero.
std::vector<AdamWRange> ranges_of(const ParamTable& table, const OptimizerSettings& settings) {
  const ParamLayout layout(table);
  std::vector<AdamWRange> ranges;
  for (int id = 0; id < table.count(); ++id) {
    if (!table[id].trainable) continue;
    const AdamWRule rule = rule_of(table, settings, id);
    const int64_t begin = layout.offset[static_cast<size_t>(id)];
    if (!ranges.empty()) ranges.back().end = begin;
    if (ranges.empty() || ranges.back().rule != rule) ranges.push_back({begin, begin, rule});
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
        ranges.push_back({both.begin - piece.begin, both.end - piece.begin, rule_of(table_, settings_, id)});
      }
      std::vector<double> values(2 * ranges.size());
      DeviceArray<double> device_values(&ctx.device);
      ctx.kernels.update_squares(ctx, {.param = weights.range(piece.begin, piece.end),
                                       .m = state.is_whole() ? state[0] : state.piece(0, k),
                                       .v = state.is_whole() ? state[1] : state.piece(1, k),
                                       .ranges = ranges,
                                       .step = step,
                                       .sums = device_values.share(values, Access::write)});
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

std::unique_ptr<Optimizer> make_adamw(const ParamTable& table, const OptimizerSettings& settings) {
  return std::make_unique<AdamW>(table, settings);
}

}  // namespace gpt
