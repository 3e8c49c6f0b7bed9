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

PackedMatrix Linear::packed(const ForwardContext& pass, int first, int last, bool transposed) const {
  const WeightViews& w = pass.weights;
  if (w.packed == nullptr) return {};
  const int from = parts_[static_cast<size_t>(first)].weight, to = parts_[static_cast<size_t>(last)].weight;
  if (w.packs_per_use) return w.packed->pack(pass.ctx, w.views, from, to, w.compute, transposed);
  const auto weights = w.views.subspan(static_cast<size_t>(from), static_cast<size_t>(to - from) + 1);
  const auto dtype = packed_dtype(pass.ctx.kernels, weights, w.compute, w.in_place, transposed);
  return dtype ? w.packed->get(pass.ctx, w.views, from, to, *dtype, transposed) : PackedMatrix{};
}

TensorView Linear::weights(std::span<const TensorView> views, const Columns& c) const {
  return glued_view(views, parts_[static_cast<size_t>(c.first)].weight,
                    parts_[static_cast<size_t>(c.last)].weight);
}

TensorView Linear::biases(std::span<const TensorView> views, const Columns& c) const {
  const int first = parts_[static_cast<size_t>(c.first)].bias;
  return first < 0 ? TensorView{} : glued_view(views, first, parts_[static_cast<size_t>(c.last)].bias);
}

// Calls fn(Columns) once for all parts if `together` is true, else once for each part.
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

bool Linear::is_adapted(const RowsAdapter& rows) const {
  return std::ranges::any_of(parts_, [&](const Part& p) { return rows.adapter->find(p.weight) != nullptr; });
}

bool Linear::has_adapter(const ForwardContext& pass) const {
  return std::ranges::any_of(pass.batch.adapters, [&](const RowsAdapter& rows) { return is_adapted(rows); });
}

namespace {

TensorView rows_of(const TensorView& v, const RowsAdapter& rows) {
  return v.slice_rows(rows.begin, rows.end - rows.begin);
}

DropoutKey adapter_dropout(const ForwardContext& pass, const RowsAdapter& rows, const LowRank& product) {
  DropoutKey key = pass.dropout(rows.adapter->dropout, RandomSite::dropout_adapter, product.a);
  key.first_row += rows.begin;
  return key;
}

}  // namespace

// Calls fn(rows, product, columns of y) for every low-rank product of every adapter.
template <class F>
void Linear::for_adapters(const ForwardContext& pass, const TensorView& y, F&& fn) const {
  for (const RowsAdapter& rows : pass.batch.adapters) {
    if (rows.begin >= rows.end) continue;
    const LowRank* previous = nullptr;
    for_products(false, [&](const Columns& c) {
      const LowRank* product = rows.adapter->find(parts_[static_cast<size_t>(c.first)].weight);
      if (product != nullptr && product != previous)
        fn(rows, *product, rows_of(y, rows).slice_cols(c.begin, rows.adapter->b(*product).rows()));
      previous = product;
    });
  }
}

namespace {

// Returns the input of an adapter's matrix A, which is x after dropout in training.
TensorView adapter_input(const ForwardContext& pass, const RowsAdapter& rows, const LowRank& product,
                         const TensorView& x) {
  const DropoutKey dropout = adapter_dropout(pass, rows, product);
  if (dropout.p <= 0) return rows_of(x, rows);
  const TensorView dropped = rows_of(pass.adapter_memory.dropped, rows).slice_cols(0, x.cols());
  pass.ctx.kernels.dropout(pass.ctx, {.out = dropped, .x = rows_of(x, rows), .dropout = dropout});
  return dropped;
}

// Computes scale x A^T [n,r] in the first columns of the scratch memory of adapters.
TensorView low_rank_product(const ForwardContext& pass, const RowsAdapter& rows, const LowRank& product,
                            const TensorView& input) {
  const KernelTable& k = pass.ctx.kernels;
  const TensorView t = rows_of(pass.adapter_memory.low_rank, rows).slice_cols(0, product.rank);
  k.linear_forward(pass.ctx,
                   {.y = t, .x = input, .w = rows.adapter->a(product), .row_invariant = pass.row_invariant});
  k.scale(pass.ctx, {.x = t, .factor = product.scale});
  return t;
}

TensorView transposed(TensorView v) {
  std::swap(v.shape[0], v.shape[1]);
  v.transposed = true;
  return v;
}

// Computes dx += dt A. With dropout, applies the dropout mask to dt A before the addition.
void add_input_gradient(const ForwardContext& pass, const RowsAdapter& rows, const LowRank& product,
                        const TensorView& dt, const TensorView& dx) {
  const KernelTable& k = pass.ctx.kernels;
  const TensorView& a = rows.adapter->a(product);
  const DropoutKey dropout = adapter_dropout(pass, rows, product);
  if (dropout.p <= 0)
    return k.linear_backward_input(pass.ctx, {.dx = dx, .dy = dt, .w = a, .accumulate = true});
  const TensorView part = rows_of(pass.adapter_memory.dropped, rows).slice_cols(0, dx.cols());
  k.linear_backward_input(pass.ctx, {.dx = part, .dy = dt, .w = a});
  k.dropout(pass.ctx, {.out = part, .x = part, .dropout = dropout});
  k.add(pass.ctx, {.out = dx, .a = dx, .b = part});
}

}  // namespace

void Linear::add_adapters(const ForwardContext& pass, const TensorView& x, const TensorView& y) const {
  for_adapters(pass, y, [&](const RowsAdapter& rows, const LowRank& product, const TensorView& columns) {
    const TensorView t = low_rank_product(pass, rows, product, adapter_input(pass, rows, product, x));
    pass.ctx.kernels.linear_backward_input(
        pass.ctx, {.dx = columns, .dy = t, .w = transposed(rows.adapter->b(product)), .accumulate = true});
  });
}

void Linear::backward_adapters(const BackwardContext& pass, const TensorView& x, const TensorView& dy,
                               const TensorView& dx) const {
  const KernelTable& k = pass.ctx.kernels;
  for_adapters(pass, dy, [&](const RowsAdapter& rows, const LowRank& product, const TensorView& columns) {
    const TensorView dt =
        rows_of(pass.adapter_memory.low_rank, rows).slice_cols(rows.adapter->rank, product.rank);
    k.linear_backward_input(pass.ctx, {.dx = dt, .dy = columns, .w = rows.adapter->b(product)});
    k.scale(pass.ctx, {.x = dt, .factor = product.scale});
    if (!pass.adapter_grads.empty()) {
      const TensorView* dw = &pass.adapter_grads[static_cast<size_t>(product.a)];
      const auto gradient = [&](const TensorView& d, const TensorView& of_y, const TensorView& of_x) {
        k.linear_backward_weight(
            pass.ctx, {.dw = d, .dy = of_y, .x = of_x, .accumulate = pass.accumulate, .compute = d.dtype});
      };
      const TensorView input = adapter_input(pass, rows, product, x);
      gradient(dw[0], dt, input);
      gradient(dw[1], columns, low_rank_product(pass, rows, product, input));
    }
    if (dx) add_input_gradient(pass, rows, product, dt, rows_of(dx, rows));
  });
}

void Linear::forward(const ForwardContext& pass, const TensorView& x, const TensorView& y,
                     const Epilogue& act) const {
  if (!has_adapter(pass)) return multiply(pass, x, y, act);
  if (!act.act) {
    multiply(pass, x, y, {});
    return add_adapters(pass, x, y);
  }
  // In rows with an adapter for this matrix, the activation must follow the adapter product. All other rows
  // use the fused activation.
  RowsAdapter all{x.rows(), 0, nullptr};
  int64_t with = 0;
  for (const RowsAdapter& rows : pass.batch.adapters) {
    if (!is_adapted(rows)) continue;
    all = {std::min(all.begin, rows.begin), rows.end, nullptr};
    with += rows.end - rows.begin;
  }
  if (with < x.rows()) multiply(pass, x, y, act);
  multiply(pass, rows_of(x, all), rows_of(act.pre, all), {});
  add_adapters(pass, x, act.pre);
  for (const RowsAdapter& rows : pass.batch.adapters) {
    if (!is_adapted(rows)) continue;
    pass.ctx.kernels.act_forward(pass.ctx,
                                 {.act = *act.act, .out = rows_of(y, rows), .x = rows_of(act.pre, rows)});
  }
}

void Linear::multiply(const ForwardContext& pass, const TensorView& x, const TensorView& y,
                      const Epilogue& act) const {
  const bool one_bias = parts_.front().bias < 0 || biases(pass.weights.views, all());
  const PackedMatrix matrix = one_bias ? packed(pass, 0, last(), false) : PackedMatrix{};
  for_products(matrix || (one_bias && weights(pass.weights.views, all())), [&](const Columns& c) {
    const PackedMatrix part = matrix ? matrix : packed(pass, c.first, c.last, false);
    pass.ctx.kernels.linear_forward(pass.ctx, {.y = y.slice_cols(c.begin, c.n),
                                               .x = x,
                                               .w = part ? TensorView{} : weights(pass.weights.views, c),
                                               .bias = biases(pass.weights.views, c),
                                               .row_invariant = pass.row_invariant,
                                               .packed = part,
                                               .compute = pass.weights.compute,
                                               .act = act.act,
                                               .pre = act.pre});
  });
}

void Linear::backward(const BackwardContext& pass, const TensorView& x, const TensorView& dy,
                      const TensorView& dx, bool accumulate_dx, const Epilogue& act) const {
  const KernelTable& k = pass.ctx.kernels;
  const bool one_grad = weights(pass.grads, all()) && (parts_.front().bias < 0 || biases(pass.grads, all()));
  for_products(one_grad, [&](const Columns& c) {
    if (!pass.grad(parts_[static_cast<size_t>(c.first)].weight)) return;  // the weights are frozen
    k.linear_backward_weight(pass.ctx, {.dw = weights(pass.grads, c),
                                        .dbias = biases(pass.grads, c),
                                        .dy = dy.slice_cols(c.begin, c.n),
                                        .x = x,
                                        .accumulate = pass.accumulate,
                                        .compute = pass.weights.compute});
  });
  for (const Part& part : parts_) {
    pass.gradient_ready(part.weight);
    pass.gradient_ready(part.bias);
  }
  const bool adapted = has_adapter(pass);
  if (adapted && !dx) backward_adapters(pass, x, dy, {});
  if (!dx) return;
  const PackedMatrix matrix = packed(pass, 0, last(), true);
  for_products(matrix || weights(pass.weights.views, all()), [&](const Columns& c) {
    k.linear_backward_input(pass.ctx, {.dx = dx,
                                       .dy = dy.slice_cols(c.begin, c.n),
                                       .w = matrix ? TensorView{} : weights(pass.weights.views, c),
                                       .accumulate = accumulate_dx || c.begin > 0,
                                       .packed = matrix,
                                       .act = adapted ? std::nullopt : act.act,
                                       .pre = act.pre});
  });
  if (!adapted) return;
  backward_adapters(pass, x, dy, dx);
  if (act.act) k.act_backward(pass.ctx, {.act = *act.act, .dx = dx, .dout = dx, .x = act.pre});
}

}  // namespace gpt
