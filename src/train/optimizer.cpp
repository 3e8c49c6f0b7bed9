#include "train/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gpt {

Optimizer::Optimizer(const ParamTable& table, AdamWSettings settings, DType dtype)
    : table_(table),
      settings_(settings),
      m_(table, dtype, "AdamW's first moments"),
      v_(table, dtype, "AdamW's second moments") {
  for (int id = 0; id < table.count(); ++id) {
    if (!ranges_.empty() && ranges_.back().decay == table[id].decay) {
      ranges_.back().last = id;
    } else {
      ranges_.push_back({id, id, table[id].decay});
    }
  }
}

namespace {

// Everything from the first to the last parameter of a range, padding included (it is and stays zero).
TensorView span_of(const ParamBuffer& buffer, const ParamRange& range) {
  const TensorView first = buffer[range.first];
  const TensorView last = buffer[range.last];
  const auto bytes = static_cast<char*>(last.data) - static_cast<char*>(first.data);
  const int64_t size = bytes / static_cast<int64_t>(dtype_size(first.dtype)) + last.size();
  return make_view(first.data, first.dtype, {size});
}

}  // namespace

void Optimizer::update(const ExecContext& ctx, const ParamBuffer& weights, const ParamBuffer& grads,
                       const StepParams& step, int64_t t) const {
  for (const ParamRange& range : ranges_) {
    ctx.kernels.adamw(ctx, {.param = span_of(weights, range),
                            .grad = span_of(grads, range),
                            .m = span_of(m_, range),
                            .v = span_of(v_, range),
                            .lr = step.lr,
                            .beta1 = settings_.beta1,
                            .beta2 = settings_.beta2,
                            .eps = settings_.eps,
                            .weight_decay = range.decay ? settings_.weight_decay : 0,
                            .t = t,
                            .grad_scale = step.grad_scale});
  }
}

std::string Optimizer::describe() const {
  int64_t tensors[2] = {0, 0}, parameters[2] = {0, 0};
  for (const ParamSpec& spec : table_.specs()) {
    ++tensors[spec.decay];
    parameters[spec.decay] += spec.size();
  }
  return fmt::format("AdamW: decay {} on {} tensors with {} parameters, none on {} tensors with {}",
                     settings_.weight_decay, tensors[1], parameters[1], tensors[0], parameters[0]);
}

GradientNorms gradient_norms(const ExecContext& ctx, const ParamTable& table, const ParamBuffer& grads) {
  GradientNorms norms;
  std::vector<double> blocks;
  double sum = 0;
  for (int id = 0; id < table.count(); ++id) {
    blocks.assign(static_cast<size_t>((grads[id].size() + kSumBlock - 1) / kSumBlock), 0);
    TensorView flat = make_view(grads[id].data, grads[id].dtype, {grads[id].size()});
    ctx.kernels.sum_squares(ctx, {.x = flat, .block_sums = blocks.data()});
    double squares = 0;
    for (double block : blocks)
      squares += block;
    if (!std::isfinite(squares) && norms.first_bad < 0) norms.first_bad = id;
    sum += squares;
  }
  norms.total = std::sqrt(sum);
  return norms;
}

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

}  // namespace gpt
