#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void embedding_forward(const ExecContext& ctx, const EmbeddingArgs& a) noexcept {
  dispatch(a.out.dtype, [&]<class T>(T) {
    for_rows(ctx, a.out.rows(), [&](int64_t n) {
      T* out = a.out.row<T>(n);
      const T* token = a.wte.row<T>(a.ids[n]);
      const T* position = a.wpe ? a.wpe.row<T>(a.positions[n]) : nullptr;
      for (int64_t c = 0; c < a.out.cols(); ++c)
        out[c] = position ? token[c] + position[c] : token[c];
    });
  });
}

// One task per slice of channels: every table entry is summed by one task, in the order of the rows.
void embedding_backward(const ExecContext& ctx, const EmbeddingBackwardArgs& a) noexcept {
  constexpr int64_t kSlice = 64;
  dispatch(a.dout.dtype, [&]<class T>(T) {
    const int64_t cols = a.dout.cols();
    ctx.pool.parallel_for((cols + kSlice - 1) / kSlice, [&](int64_t task, int) {
      const int64_t begin = task * kSlice;
      const int64_t end = std::min(cols, begin + kSlice);
      for (int64_t n = 0; n < a.dout.rows(); ++n) {
        const T* dout = a.dout.row<T>(n);
        T* dtoken = a.dwte ? a.dwte.row<T>(a.ids[n]) : nullptr;
        T* dposition = a.dwpe ? a.dwpe.row<T>(a.positions[n]) : nullptr;
        for (int64_t c = begin; c < end; ++c) {
          if (dtoken) dtoken[c] += dout[c];
          if (dposition) dposition[c] += dout[c];
        }
      }
    });
  });
}

}  // namespace gpt::ref
