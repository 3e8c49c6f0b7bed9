#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {
namespace {

constexpr int64_t kRowsPerPartial = 32;

int64_t blocks_of(int64_t rows) {
  return (rows + kRowsPerPartial - 1) / kRowsPerPartial;
}

float* number_or_null(const TensorView& v, int64_t i) {
  return v ? v.as<float>() + i : nullptr;
}

void backward_block(const RowKernels& kernels, const NormBackwardArgs& a, int64_t block, float* partials) {
  const int64_t cols = a.x.cols();
  const int64_t begin = block * kRowsPerPartial;
  const int64_t end = std::min(a.x.rows(), begin + kRowsPerPartial);
  for (int64_t n = begin; n < end; ++n) {
    kernels.norm_backward({.center = a.kind == NormKind::layer,
                           .n = cols,
                           .mean = a.kind == NormKind::layer ? a.mean.as<float>()[n] : 0.0f,
                           .rstd = a.rstd.as<float>()[n],
                           .dout_type = stored_type(a.dout.dtype),
                           .dx = a.dx.row<float>(n),
                           .dout = row_at(a.dout, n),
                           .x = a.x.row<float>(n),
                           .gain = a.gain ? a.gain.as<float>() : nullptr,
                           .dresidual = row_or_null(a.dresidual, n),
                           .dgain = a.dgain ? partials : nullptr,
                           .dbias = a.dbias ? partials + cols : nullptr,
                           .first = n == begin});
  }
}

// Adds the partial sums of all blocks, in order, to dgain and dbias. Without `accumulate`, overwrites dgain
// and dbias instead. One parallel loop processes column slices of both gradients.
void add_blocks(const RowKernels& kernels, const ExecContext& ctx, const NormBackwardArgs& a,
                const float* partials, int64_t blocks) {
  constexpr int64_t kSlice = 64;
  const int64_t cols = a.x.cols(), slices = (cols + kSlice - 1) / kSlice;
  for_tasks(ctx, 2 * slices, 2 * blocks * cols, [&](int64_t task) {
    const bool bias = task >= slices;
    const TensorView& d = bias ? a.dbias : a.dgain;
    if (!d) return;
    const int64_t begin = task % slices * kSlice, n = std::min(kSlice, cols - begin);
    float* sums = d.as<float>() + begin;
    if (!a.accumulate) std::fill_n(sums, n, 0.0f);
    kernels.add_partials(sums, partials + (bias ? cols : 0) + begin, blocks, 2 * cols, n);
  });
}

// Returns a pointer to head h of row n.
void* head_at(const TensorView& v, int64_t n, int64_t h, int64_t head_dim) {
  return static_cast<char*>(row_at(v, n)) + h * head_dim * static_cast<int64_t>(dtype_size(v.dtype));
}

}  // namespace

void norm_forward(const RowKernels& kernels, const ExecContext& ctx, const NormArgs& a) noexcept {
  if (!all_f32(a.x, a.sum) || !is_activation(a.out.dtype) || !is_activation(a.add.dtype))
    return fall_back(ctx, "norm_forward", ref::norm_forward, a);
  for_rows(ctx, a.x.rows(), a.x.cols(), [&](int64_t n) {
    kernels.norm({.center = a.kind == NormKind::layer,
                  .eps = a.eps,
                  .n = a.x.cols(),
                  .out_type = stored_type(a.out.dtype),
                  .add_type = stored_type(a.add.dtype),
                  .out = row_at(a.out, n),
                  .x = a.x.row<float>(n),
                  .gain = a.gain ? a.gain.as<float>() : nullptr,
                  .bias = a.bias ? a.bias.as<float>() : nullptr,
                  .add = row_at(a.add, n),
                  .sum = row_or_null(a.sum, n),
                  .mean = number_or_null(a.mean, n),
                  .rstd = number_or_null(a.rstd, n)});
  });
}

// The scratch memory holds the partial sums of dgain and dbias.
ScratchNeed norm_backward_scratch(int64_t rows, int64_t cols, DType dtype) {
  if (dtype == DType::f64) return {};
  return {.shared = blocks_of(rows) * 2 * cols * static_cast<int64_t>(sizeof(float))};
}

void norm_backward(const RowKernels& kernels, const ExecContext& ctx, const NormBackwardArgs& a) noexcept {
  if (!all_f32(a.dx, a.x, a.dresidual) || !is_activation(a.dout.dtype))
    return fall_back(ctx, "norm_backward", ref::norm_backward, a);
  const int64_t cols = a.x.cols(), blocks = blocks_of(a.x.rows());
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(norm_backward_scratch(a.x.rows(), cols, a.x.dtype)));
  auto* partials = ctx.scratch.all<float>();
  // Each task processes a block of rows and stores the block's sums of dgain and dbias in its part of the
  // scratch memory.
  for_tasks(ctx, blocks, a.x.size(),
            [&](int64_t block) { backward_block(kernels, a, block, partials + block * 2 * cols); });
  if (a.dgain || a.dbias) add_blocks(kernels, ctx, a, partials, blocks);
}

void qk_norm_forward(const RowKernels& kernels, const ExecContext& ctx, const QkNormArgs& a) noexcept {
  const OneTypeKernels* typed = kernels_of(kernels, a.x.dtype);
  if (typed == nullptr || a.gain) return fall_back(ctx, "qk_norm_forward", ref::qk_norm_forward, a);
  for_rows(ctx, a.x.rows(), a.n_head * a.head_dim, [&](int64_t n) {
    for (int64_t h = 0; h < a.n_head; ++h) {
      const float rstd = typed->qk_norm(head_at(a.x, n, h, a.head_dim), a.head_dim, a.eps);
      if (a.rstd) a.rstd.row<float>(n)[h] = rstd;
    }
  });
}

void qk_norm_backward(const RowKernels& kernels, const ExecContext& ctx,
                      const QkNormBackwardArgs& a) noexcept {
  const OneTypeKernels* typed = kernels_of(kernels, a.dx.dtype);
  if (typed == nullptr || a.gain || !all(a.dx.dtype, a.y))
    return fall_back(ctx, "qk_norm_backward", ref::qk_norm_backward, a);
  for_rows(ctx, a.dx.rows(), a.n_head * a.head_dim, [&](int64_t n) {
    for (int64_t h = 0; h < a.n_head; ++h) {
      typed->qk_norm_backward(head_at(a.dx, n, h, a.head_dim), head_at(a.y, n, h, a.head_dim), a.head_dim,
                              a.rstd.row<float>(n)[h]);
    }
  });
}

}  // namespace gpt::drivers
