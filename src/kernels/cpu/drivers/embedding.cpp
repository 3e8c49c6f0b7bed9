#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

void embedding_forward(const RowKernels& kernels, const ExecContext& ctx, const EmbeddingArgs& a) noexcept {
  const DType t = a.wte.dtype;
  if (!all_f32(a.out) || !is_activation(t) || !all(t, a.wpe))
    return fall_back(ctx, "embedding_forward", ref::embedding_forward, a);
  const int64_t cols = a.out.cols();
  const Stored type = stored_type(t);
  for_rows(ctx, a.out.rows(), cols, [&](int64_t n) {
    const void* token = row_at(a.wte, unwrap(a.ids)[n]);
    if (a.wpe) {
      kernels.add(a.out.row<float>(n), token, type, row_at(a.wpe, unwrap(a.positions)[n]), type, cols);
    } else {
      kernels.convert(a.out.row<float>(n), Stored::f32, token, type, cols);
    }
  });
}

namespace {

void clear_columns(const TensorView& d, int64_t begin, int64_t width) {
  for (int64_t r = 0; d && r < d.rows(); ++r)
    std::fill_n(d.row<float>(r) + begin, width, 0.0f);
}

}  // namespace

// Each task processes a slice of channels. Every element of the embedding tables is therefore summed by a
// single task, in row order.
void embedding_backward(const RowKernels& kernels, const ExecContext& ctx,
                        const EmbeddingBackwardArgs& a) noexcept {
  const DType t = a.dout.dtype;
  if (!is_activation(t) || !all_f32(a.dwte, a.dwpe))
    return fall_back(ctx, "embedding_backward", ref::embedding_backward, a);
  constexpr int64_t kSlice = 64;
  const int64_t cols = a.dout.cols();
  for_tasks(ctx, (cols + kSlice - 1) / kSlice, a.dout.size(), [&](int64_t task) {
    const int64_t begin = task * kSlice;
    const int64_t width = std::min(kSlice, cols - begin);
    const TensorView slice = a.dout.slice_cols(begin, width);
    const auto accumulate = [&](float* d, int64_t n) {
      kernels.add(d, d, Stored::f32, row_at(slice, n), stored_type(t), width);
    };
    if (!a.accumulate_wte) clear_columns(a.dwte, begin, width);
    if (!a.accumulate_wpe) clear_columns(a.dwpe, begin, width);
    for (int64_t n = 0; n < a.dout.rows(); ++n) {
      if (a.dwte) accumulate(a.dwte.row<float>(unwrap(a.ids)[n]) + begin, n);
      if (a.dwpe) accumulate(a.dwpe.row<float>(unwrap(a.positions)[n]) + begin, n);
    }
  });
}

}  // namespace gpt::drivers
