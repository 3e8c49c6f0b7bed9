#include "model/layers/linear.h"

#include <algorithm>

#include "model/params.h"
#include "model/weight_cache.h"

namespace gpt {

Linear::Linear(const ParamTable& table, std::vector<Part> parts) : parts_(std::move(parts)) {
  for (const Part& part : parts_) {
    const Shape& shape = table[part.weight].shape;
    in_ = shape[1];
    out_ += shape[0];
    widths_.push_back(shape[0]);
  }
}

// Weights in blocks are multiplied as they are, where they are.
bool Linear::in_blocks(const Pass& pass, int first, int last) const {
  for (int part = first; part <= last; ++part) {
    if (is_quantized(pass.weights[static_cast<size_t>(parts_[static_cast<size_t>(part)].weight)].dtype))
      return true;
  }
  return false;
}

// A packed copy would be twice as long as what is stored, and is no faster to read.
bool widens(DType stored, DType compute) {
  return compute == DType::f32 && (stored == DType::bf16 || stored == DType::f16);
}

const PackedMatrix* Linear::packed(const Pass& pass, int first, int last, bool transposed) const {
  if (pass.packed == nullptr || pass.compute == DType::f64 || in_blocks(pass, first, last)) return nullptr;
  const int from = parts_[static_cast<size_t>(first)].weight, to = parts_[static_cast<size_t>(last)].weight;
  const auto is_read_in_place = [&](const Part& part) {
    const DType stored = pass.weights[static_cast<size_t>(part.weight)].dtype;
    return (pass.in_place && stored == pass.compute) || widens(stored, pass.compute);
  };
  if (std::all_of(parts_.begin() + first, parts_.begin() + last + 1, is_read_in_place)) return nullptr;
  const auto get = [&](DType dtype) {
    return pass.packed->get(pass.ctx, pass.weights, from, to, dtype, transposed);
  };
  const PackedMatrix* matrix = get(pass.compute);
  // Blocks of 32 do not fit every matrix.
  return matrix == nullptr && is_quantized(pass.compute) ? get(DType::f16) : matrix;
}

TensorView Linear::weights(std::span<const TensorView> views, const Columns& c) const {
  return glued_view(views, parts_[static_cast<size_t>(c.first)].weight,
                    parts_[static_cast<size_t>(c.last)].weight);
}

TensorView Linear::biases(std::span<const TensorView> views, const Columns& c) const {
  const int first = parts_[static_cast<size_t>(c.first)].bias;
  return first < 0 ? TensorView{} : glued_view(views, first, parts_[static_cast<size_t>(c.last)].bias);
}

// fn(Columns) for one product over all parts, or for each part.
template <class F>
void Linear::for_products(bool together, F&& fn) const {
  if (together) return fn(all());
  int64_t begin = 0;
  for (int part = 0; part <= last(); ++part) {
    const int64_t width = widths_[static_cast<size_t>(part)];
    fn(Columns{part, part, begin, width});
    begin += width;
  }
}

void Linear::forward(const Pass& pass, const TensorView& x, const TensorView& y,
                     const Activation& act) const {
  const bool one_bias = parts_.front().bias < 0 || biases(pass.weights, all());
  const PackedMatrix* matrix = one_bias ? packed(pass, 0, last(), false) : nullptr;
  for_products(matrix || (one_bias && weights(pass.weights, all())), [&](const Columns& c) {
    const PackedMatrix* part = matrix ? matrix : packed(pass, c.first, c.last, false);
    pass.ctx.kernels.linear_forward(pass.ctx, {.y = y.columns(c.begin, c.n),
                                               .x = x,
                                               .w = part ? TensorView{} : weights(pass.weights, c),
                                               .bias = biases(pass.weights, c),
                                               .row_invariant = pass.row_invariant,
                                               .packed = part,
                                               .compute = pass.compute,
                                               .act = act.act,
                                               .pre = act.pre});
  });
}

void Linear::backward(const Pass& pass, const TensorView& x, const TensorView& dy, const TensorView& dx,
                      bool accumulate_dx, const Activation& act) const {
  const KernelTable& k = pass.ctx.kernels;
  const bool one_grad = weights(pass.grads, all()) && (parts_.front().bias < 0 || biases(pass.grads, all()));
  for_products(one_grad, [&](const Columns& c) {
    if (!pass.grad(parts_[static_cast<size_t>(c.first)].weight)) return;  // frozen
    k.linear_backward_weight(pass.ctx, {.dw = weights(pass.grads, c),
                                        .dbias = biases(pass.grads, c),
                                        .dy = dy.columns(c.begin, c.n),
                                        .x = x,
                                        .accumulate = pass.accumulate_grads,
                                        .compute = pass.compute});
  });
  if (!dx) return;
  const PackedMatrix* matrix = packed(pass, 0, last(), true);
  for_products(matrix || weights(pass.weights, all()), [&](const Columns& c) {
    k.linear_backward_input(pass.ctx, {.dx = dx,
                                       .dy = dy.columns(c.begin, c.n),
                                       .w = matrix ? TensorView{} : weights(pass.weights, c),
                                       .accumulate = accumulate_dx || c.begin > 0,
                                       .packed = matrix,
                                       .act = act.act,
                                       .pre = act.pre});
  });
}

}  // namespace gpt
