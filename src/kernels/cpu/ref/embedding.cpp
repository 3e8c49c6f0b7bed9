#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void embedding_forward(const ExecContext& ctx, const EmbeddingArgs& a) noexcept {
  for_rows(ctx, a.out.rows(), [&](int64_t n) {
    for (int64_t c = 0; c < a.out.cols(); ++c) {
      const double token = get(a.wte, a.ids[n], c);
      set(a.out, n, c, a.wpe ? token + get(a.wpe, a.positions[n], c) : token);
    }
  });
}

// One task per slice of channels: every table entry is summed by one task, in the order of the rows.
void embedding_backward(const ExecContext& ctx, const EmbeddingBackwardArgs& a) noexcept {
  constexpr int64_t kSlice = 64;
  const int64_t cols = a.dout.cols();
  const auto accumulate = [](const TensorView& d, int64_t row, int64_t c, double x) {
    set(d, row, c, get(d, row, c) + x);
  };
  ctx.pool.parallel_for((cols + kSlice - 1) / kSlice, [&](int64_t task, int) {
    const int64_t begin = task * kSlice;
    const int64_t end = std::min(cols, begin + kSlice);
    for (int64_t n = 0; n < a.dout.rows(); ++n) {
      for (int64_t c = begin; c < end; ++c) {
        if (a.dwte) accumulate(a.dwte, a.ids[n], c, get(a.dout, n, c));
        if (a.dwpe) accumulate(a.dwpe, a.positions[n], c, get(a.dout, n, c));
      }
    }
  });
}

}  // namespace gpt::ref
