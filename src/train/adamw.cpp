#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tensor/memory.h"
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
              const OptimizerState& state, const StepState& step) const override {
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
                              .step = &step});
    }
  }

  UpdateSquares last_update(int id, const TensorView& weight, const OptimizerState& state,
                            const StepState& step) const override {
    AdamWRule rule = adamw_rule(settings_);
    if (!table_[id].decay) rule.weight_decay = 0;
    rule.lr_scale = settings_.scale(id);
    if (state.is_whole()) return adamw_change(rule, weight, state.of(0, id), state.of(1, id), step);
    UpdateSquares sums;
    const int64_t at = layout_.offset[static_cast<size_t>(id)];
    for (size_t k = 0; k < state.own().size(); ++k) {
      const ElementRange& piece = state.own()[k];
      const ElementRange range = common(piece, {at, at + weight.size()});
      if (range.size() == 0) continue;
      const auto part = [&](const TensorView& x, int64_t begin) {
        return make_view(x.as<float>() + begin, {range.size()});
      };
      const int64_t begin = range.begin - piece.begin;
      const UpdateSquares own =
          adamw_change(rule, part(weight, range.begin - at), part(state.piece(0, k), begin),
                       part(state.piece(1, k), begin), step);
      sums.update += own.update;
      sums.weight += own.weight;
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

UpdateSquares adamw_change(const AdamWRule& rule, const TensorView& weight, const TensorView& moment,
                           const TensorView& variance, const StepState& step) {
  constexpr int64_t kRun = 1024;  // summed in fp32, the runs in fp64
  const auto correct1 = static_cast<float>(1 / (1 - std::pow(rule.beta1, step.updates)));
  const auto correct2 = static_cast<float>(1 / (1 - std::pow(rule.beta2, step.updates)));
  const auto eps = static_cast<float>(rule.eps), rate = static_cast<float>(step.lr * rule.lr_scale);
  const auto pull = static_cast<float>(rule.weight_decay);
  const MappedView weights(weight), first(moment), second(variance);
  const float *w = weights->as<float>(), *m = first->as<float>(), *v = second->as<float>();
  UpdateSquares sums;
  for (int64_t begin = 0; begin < weight.size(); begin += kRun) {
    float updates = 0, squares = 0;
    for (int64_t i = begin; i < std::min(begin + kRun, weight.size()); ++i) {
      const float change = rate * (m[i] * correct1 / (std::sqrt(v[i] * correct2) + eps) + pull * w[i]);
      updates += change * change;
      squares += w[i] * w[i];
    }
    sums.update += double{updates};
    sums.weight += double{squares};
  }
  return sums;
}

std::unique_ptr<Optimizer> make_adamw(const ParamTable& table, const OptimizerSettings& settings) {
  return std::make_unique<AdamW>(table, settings);
}

}  // namespace gpt
