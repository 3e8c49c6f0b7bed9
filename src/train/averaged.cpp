#include <fmt/format.h>

#include <utility>

#include "train/optimizer.h"

namespace gpt {
namespace {

// Wraps another optimizer and keeps a moving average of the weights in one extra buffer, which follows the
// buffers of the wrapped optimizer.
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

  void bind(std::vector<ParamSlice> slices, const OptimizerState& state) override {
    inner_->bind(slices, state);
    slices_ = std::move(slices);
  }

  void update(const ExecContext& ctx, DeviceSpan<const StepState> step) const override {
    inner_->update(ctx, step);
    for (const ParamSlice& slice : slices_)
      ctx.kernels.ema(ctx, {.average = slice.state.back(), .x = slice.weight, .decay = decay_, .step = step});
  }
  std::vector<UpdateSquares> last_update(const ExecContext& ctx,
                                         DeviceSpan<const StepState> step) const override {
    return inner_->last_update(ctx, step);
  }
  std::string describe() const override {
    return inner_->describe() + fmt::format("; moving average of the weights with decay {}", decay_);
  }

 private:
  std::unique_ptr<Optimizer> inner_;
  double decay_;
  std::vector<ParamSlice> slices_;
};

}  // namespace

std::unique_ptr<Optimizer> make_averaged(std::unique_ptr<Optimizer> optimizer, double decay) {
  return std::make_unique<Averaged>(std::move(optimizer), decay);
}

}  // namespace gpt
