#include "model/layers/linear.h"

#include "model/params.h"

namespace gpt {

Linear::Linear(const ParamTable& table, std::vector<Part> parts) : parts_(std::move(parts)) {
  for (const Part& part : parts_) {
    const Shape& shape = table[part.weight].shape;
    in_ = shape[1];
    out_ += shape[0];
    widths_.push_back(shape[0]);
  }
}

std::vector<Linear::Columns> Linear::products(std::span<const TensorView> weights,
                                              std::span<const TensorView> grads) const {
  const int last = static_cast<int>(parts_.size()) - 1;
  const auto glued = [&](std::span<const TensorView> views) {
    return glued_view(views, parts_.front().weight, parts_.back().weight) &&
           (parts_.front().bias < 0 || glued_view(views, parts_.front().bias, parts_.back().bias));
  };
  if (last == 0 || (glued(weights) && (grads.empty() || glued(grads)))) return {{0, last, 0, out_}};
  std::vector<Columns> products;
  int64_t begin = 0;
  for (int part = 0; part <= last; ++part) {
    const int64_t width = widths_[static_cast<size_t>(part)];
    products.push_back({part, part, begin, width});
    begin += width;
  }
  return products;
}

void Linear::forward(const Pass& pass, const TensorView& x, const TensorView& y) const {
  for (const Columns& c : products(pass.weights, {})) {
    const Part& first = parts_[static_cast<size_t>(c.first)];
    const Part& last = parts_[static_cast<size_t>(c.last)];
    pass.ctx.kernels.linear_forward(
        pass.ctx, {.y = y.columns(c.begin, c.n),
                   .x = x,
                   .w = glued_view(pass.weights, first.weight, last.weight),
                   .bias = first.bias < 0 ? TensorView{} : glued_view(pass.weights, first.bias, last.bias),
                   .row_invariant = pass.row_invariant});
  }
}

void Linear::backward(const Pass& pass, const TensorView& x, const TensorView& dy, const TensorView& dx,
                      bool accumulate_dx) const {
  const KernelTable& k = pass.ctx.kernels;
  for (const Columns& c : products(pass.weights, pass.grads)) {
    const Part& first = parts_[static_cast<size_t>(c.first)];
    const Part& last = parts_[static_cast<size_t>(c.last)];
    const TensorView dy_part = dy.columns(c.begin, c.n);
    if (pass.grad(first.weight)) {  // not frozen
      k.linear_backward_weight(
          pass.ctx, {.dw = glued_view(pass.grads, first.weight, last.weight),
                     .dbias = first.bias < 0 ? TensorView{} : glued_view(pass.grads, first.bias, last.bias),
                     .dy = dy_part,
                     .x = x,
                     .accumulate = pass.accumulate_grads});
    }
    if (dx) {
      k.linear_backward_input(pass.ctx, {.dx = dx,
                                         .dy = dy_part,
                                         .w = glued_view(pass.weights, first.weight, last.weight),
                                         .accumulate = accumulate_dx || c.begin > 0});
    }
  }
}

}  // namespace gpt
