#include <fmt/format.h>

#include <utility>

#include "train/optimizer.h"

namespace gpt {
namespace {

// Another optimizer, and an average of the weights after its updates in a buffer behind its own.
class Averaged : public Optimizer {
 public:
  Averaged(std::unique_ptr<Optimizer> inner, double decay) : inner_(std::move(inner)), decay_(decay) {}

  std::vector<OptimizerBuffer> buffers() const override {
    std::vector<OptimizerBuffer> all = inner_->buffers();
    all.push_back({kEma});
    return all;
  }
  ScratchNeed scratch(const KernelTable& kernels, DType dtype) const override {
    return inner_->scratch(kernels, dtype);
  }
  double flops() const override { return inner_->flops(); }

  void update(const ExecContext& ctx, const ParamBuffer& weights, const ParamBuffer& grads,
              const OptimizerState& state, DeviceSpan<const StepState> step) const override {
    inner_->update(ctx, weights, grads, state, step);
    const size_t last = state.count() - 1;
    const auto average = [&](const TensorView& of, const TensorView& x) {
      if (x.size() > 0) ctx.kernels.ema(ctx, {.average = of, .x = x, .decay = decay_, .step = step});
    };
    if (state.is_whole()) return average(state[last], weights.all());
    for (size_t k = 0; k < state.own().size(); ++k)
      average(state.piece(last, k), weights.range(state.own()[k].begin, state.own()[k].end));
  }
  std::vector<UpdateSquares> last_update(const ExecContext& ctx, const ParamBuffer& weights,
                                         const OptimizerState& state,
                                         DeviceSpan<const StepState> step) const override {
    return inner_->last_update(ctx, weights, state, step);
  }
  std::string describe() const override {
    return inner_->describe() + fmt::format("; their average with decay {}", decay_);
  }

 private:
  std::unique_ptr<Optimizer> inner_;
  double decay_;
};

}  // namespace

std::unique_ptr<Optimizer> make_averaged(std::unique_ptr<Optimizer> optimizer, double decay) {
  return std::make_unique<Averaged>(std::move(optimizer), decay);
}

}  // namespace gpt
