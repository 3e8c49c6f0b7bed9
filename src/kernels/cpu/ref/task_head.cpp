#include <cmath>
#include <limits>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void pick_rows(const ExecContext& ctx, const PickRowsArgs& a) noexcept {
  const int64_t rows = a.out.rows();
  const int64_t group = rows > 0 ? a.picked.samples / rows : 0;
  for_rows(ctx, rows, [&](int64_t i) {
    for (int64_t c = 0; c < a.x.cols(); ++c)
      set(a.out, i, c, get(a.x, picked_row(a.picked, i * group), c));
    for (int64_t sample = i * group + 1; sample < (i + 1) * group; ++sample) {
      const int64_t row = picked_row(a.picked, sample);
      for (int64_t c = 0; c < a.x.cols(); ++c)
        set(a.out, i, c, get(a.out, i, c) + get(a.x, row, c));
    }
  });
}

void pick_rows_backward(const ExecContext& ctx, const PickRowsBackwardArgs& a) noexcept {
  const PickedRows& p = a.picked;
  if (p.samples == 0) return;
  const int64_t group = p.samples / a.dout.rows(), length = static_cast<int64_t>(p.ids.size()) / p.samples;
  ctx.pool.parallel_for(p.samples, [&](int64_t sample, int) {
    const int64_t picked = picked_row(p, sample);
    for (int64_t row = sample * length; row < (sample + 1) * length; ++row) {
      if (row == picked) {
        for (int64_t c = 0; c < a.dx.cols(); ++c)
          set(a.dx, row, c, get(a.dout, sample / group, c) + (a.accumulate ? get(a.dx, row, c) : 0));
      } else if (!a.accumulate) {
        for (int64_t c = 0; c < a.dx.cols(); ++c)
          set(a.dx, row, c, 0);
      }
    }
  });
}

namespace {

// squared_error() and class_error() return the loss of row i. They also store the gradient of the loss,
// multiplied by `scale`, in dlogits.
double squared_error(const LabelLossArgs& a, int64_t i, double label, double scale) {
  const double error = get(a.logits, i, 0) - label;
  if (a.dlogits) set(a.dlogits, i, 0, scale * 2 * error);
  return error * error;
}

double class_error(const LabelLossArgs& a, int64_t i, int64_t label, double scale) {
  const int64_t classes = a.logits.cols();
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t k = 0; k < classes; ++k)
    top = std::max(top, get(a.logits, i, k));
  for (int64_t k = 0; k < classes; ++k)
    sum += std::exp(get(a.logits, i, k) - top);
  const double lse = top + std::log(sum);
  for (int64_t k = 0; a.dlogits && k < classes; ++k)
    set(a.dlogits, i, k, scale * (std::exp(get(a.logits, i, k) - lse) - (k == label ? 1 : 0)));
  return lse - get(a.logits, i, label);
}

}  // namespace

void label_loss(const ExecContext&, const LabelLossArgs& a) noexcept {
  const int64_t rows = a.logits.rows();
  if (!a.accumulate) std::fill_n(unwrap(a.losses), a.picked.ids.size(), 0.0);
  const double scale = loss_factor(a.step);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t sample = i * (a.picked.samples / rows), row = picked_row(a.picked, sample);
    const double label = unwrap(a.labels)[sample], weight = a.weights ? double{unwrap(a.weights)[row]} : 1;
    const bool squared = a.loss == LabelLoss::squared_error;
    const bool is_label =
        squared ? std::isfinite(label) : label >= 0 && label < static_cast<double>(a.logits.cols());
    if (!is_label || weight == 0) {
      for (int64_t k = 0; a.dlogits && k < a.logits.cols(); ++k)
        set(a.dlogits, i, k, 0);
      continue;
    }
    unwrap(a.losses)[row] +=
        weight * (squared ? squared_error(a, i, label, weight * scale)
                          : class_error(a, i, static_cast<int64_t>(label), weight * scale));
  }
}

}  // namespace gpt::ref
