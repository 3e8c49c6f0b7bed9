#include <cstring>

#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

void embedding_forward(const RowKernels& kernels, const ExecContext& ctx, const EmbeddingArgs& a) noexcept {
  if (!all_f32(a.out, a.wte, a.wpe)) return ref::embedding_forward(ctx, a);
  const int64_t cols = a.out.cols();
  if (cols == 0) return;
  for_rows(ctx, a.out.rows(), cols, [&](int64_t n) {
    const float* token = a.wte.row<float>(a.ids[n]);
    if (a.wpe) {
      kernels.add(a.out.row<float>(n), token, a.wpe.row<float>(a.positions[n]), cols);
    } else {
      std::memcpy(a.out.row<float>(n), token, static_cast<size_t>(cols) * sizeof(float));
    }
  });
}

// One task per slice of channels: every table entry is summed by one task, in the order of the rows.
void embedding_backward(const RowKernels& kernels, const ExecContext& ctx,
                        const EmbeddingBackwardArgs& a) noexcept {
  if (!all_f32(a.dout, a.dwte, a.dwpe)) return ref::embedding_backward(ctx, a);
  constexpr int64_t kSlice = 64;
  const int64_t cols = a.dout.cols();
  for_tasks(ctx, (cols + kSlice - 1) / kSlice, a.dout.size(), [&](int64_t task) {
    const int64_t begin = task * kSlice;
    const int64_t width = std::min(kSlice, cols - begin);
    for (int64_t n = 0; n < a.dout.rows(); ++n) {
      const float* dout = a.dout.row<float>(n) + begin;
      if (a.dwte) {
        float* d = a.dwte.row<float>(a.ids[n]) + begin;
        kernels.add(d, d, dout, width);
      }
      if (a.dwpe) {
        float* d = a.dwpe.row<float>(a.positions[n]) + begin;
        kernels.add(d, d, dout, width);
      }
    }
  });
}

}  // namespace gpt::drivers
