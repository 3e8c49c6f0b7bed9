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

class AdamW : public Optimizer {
 public:
  AdamW(const ParamTable& table, const OptimizerSettings& settings)
      : table_(table), settings_(settings), ranges_(ranges_of(table, settings)) {}

  std::vector<OptimizerBuffer> buffers() const override { return {{"m"}, {"v"}}; }

  void update(const ExecContext& ctx, const ParamBuffer& weights, const ParamBuffer& grads,
              const OptimizerState& state, const StepState& step) const override {
    ctx.kernels.adamw(ctx, {.param = weights.all(),
                            .grad = grads.all(),
                            .m = state[0],
                            .v = state[1],
                            .ranges = ranges_,
                            .beta1 = settings_.beta1,
                            .beta2 = settings_.beta2,
                            .eps = settings_.eps,
                            .step = &step});
  }

  UpdateSquares last_update(int id, const TensorView& weight, const OptimizerState& state,
                            const StepState& step) const override {
    AdamWRule rule = adamw_rule(settings_);
    if (!table_[id].decay) rule.weight_decay = 0;
    rule.lr_scale = settings_.scale(id);
    return adamw_change(rule, weight, state.of(0, id), state.of(1, id), step);
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
  const ParamTable& table_;
  OptimizerSettings settings_;
  std::vector<AdamWRange> ranges_;
};

}  // namespace

UpdateSquares adamw_change(const AdamWRule& rule, const TensorView& weight, const TensorView& moment,
                           const TensorView& variance, const StepState& step) {
  constexpr int64_t kRun = 1024;  // summed in fp32, the runs in fp64
  const auto correct1 = static_cast<float>(1 / (1 - std::pow(rule.beta1, step.updates)));
  const auto correct2 = static_cast<float>(1 / (1 - std::pow(rule.beta2, step.updates)));
  const auto eps = static_cast<float>(rule.eps), rate = static_cast<float>(step.lr * rule.lr_scale);
  const auto pull = static_cast<float>(rule.weight_decay);
  const HostAccess weights(weight), first(moment), second(variance);
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
