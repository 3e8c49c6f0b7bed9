#include "train/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gpt {

namespace {

// The place of a parameter in its buffer.
int64_t offset_of(const ParamBuffer& buffer, int id) {
  const auto bytes = static_cast<char*>(buffer[id].data) - static_cast<char*>(buffer.all().data);
  const auto size = static_cast<int64_t>(dtype_size(buffer[id].dtype));
  GPT_ASSERT(size > 0);
  return bytes / size;
}

// Neighbours with the same decay form one range. Padding belongs to the range before it: it is zero, and
// stays zero.
std::vector<AdamWRange> decay_ranges(const ParamTable& table, const ParamBuffer& buffer, double decay) {
  std::vector<AdamWRange> ranges;
  for (int id = 0; id < table.count(); ++id) {
    const double own = table[id].decay ? decay : 0;
    const int64_t begin = offset_of(buffer, id);
    if (!ranges.empty()) ranges.back().end = begin;
    if (ranges.empty() || ranges.back().weight_decay != own) ranges.push_back({begin, begin, own});
  }
  if (!ranges.empty()) ranges.back().end = buffer.all().size();
  return ranges;
}

int first_bad_gradient(const ParamTable& table, const ParamBuffer& grads) {
  for (int id = 0; id < table.count(); ++id) {
    const TensorView& g = grads[id];
    for (int64_t i = 0; i < g.size(); ++i) {
      if (!std::isfinite(g.dtype == DType::f64 ? g.as<double>()[i] : double{g.as<float>()[i]})) return id;
    }
  }
  return -1;
}

}  // namespace

Optimizer::Optimizer(const ParamTable& table, AdamWSettings settings, DType dtype)
    : table_(table),
      settings_(settings),
      m_(table, dtype, "AdamW's first moments"),
      v_(table, dtype, "AdamW's second moments"),
      ranges_(decay_ranges(table, m_, settings.weight_decay)),
      block_sums_(static_cast<size_t>((m_.all().size() + kSumBlock - 1) / kSumBlock)) {}

GradientNorms Optimizer::norms(const ExecContext& ctx, const ParamBuffer& grads) {
  ctx.kernels.sum_squares(ctx, {.x = grads.all(), .block_sums = block_sums_.data()});
  double sum = 0;
  for (double block : block_sums_)
    sum += block;
  return {.total = std::sqrt(sum), .first_bad = std::isfinite(sum) ? -1 : first_bad_gradient(table_, grads)};
}

void Optimizer::update(const ExecContext& ctx, const ParamBuffer& weights, const ParamBuffer& grads,
                       const StepParams& step, int64_t t) const {
  ctx.kernels.adamw(ctx, {.param = weights.all(),
                          .grad = grads.all(),
                          .m = m_.all(),
                          .v = v_.all(),
                          .ranges = ranges_,
                          .lr = step.lr,
                          .beta1 = settings_.beta1,
                          .beta2 = settings_.beta2,
                          .eps = settings_.eps,
                          .t = t,
                          .grad_scale = step.grad_scale});
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

double clip_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

}  // namespace gpt
