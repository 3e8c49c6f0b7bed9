#include "kernels/cpu/ref/ref.h"
#include "kernels/quant.h"

namespace gpt::ref {
namespace {

// Embeds tokens with a quantized embedding table wte, 32 elements at a time.
void embed_blocks(const ExecContext& ctx, const EmbeddingArgs& a) {
  for_rows(ctx, a.out.rows(), [&](int64_t n) {
    const void* row = a.wte.slice_rows(unwrap(a.ids)[n], 1).data;
    for (int64_t b = 0; b < a.out.cols() / kQuantBlock; ++b) {
      float values[kQuantBlock];
      dequantize_block(a.wte.dtype, row, b, values);
      for (int64_t j = 0; j < kQuantBlock; ++j) {
        const int64_t c = b * kQuantBlock + j;
        set(a.out, n, c, a.wpe ? values[j] + get(a.wpe, unwrap(a.positions)[n], c) : double{values[j]});
      }
    }
  });
}

void clear_columns(const TensorView& d, int64_t begin, int64_t end) {
  for (int64_t r = 0; d && r < d.rows(); ++r) {
    for (int64_t c = begin; c < end; ++c)
      set(d, r, c, 0);
  }
}

}  // namespace

void embedding_forward(const ExecContext& ctx, const EmbeddingArgs& a) noexcept {
  if (is_quantized(a.wte.dtype)) return embed_blocks(ctx, a);
  for_rows(ctx, a.out.rows(), [&](int64_t n) {
    for (int64_t c = 0; c < a.out.cols(); ++c) {
      const double token = get(a.wte, unwrap(a.ids)[n], c);
      set(a.out, n, c, a.wpe ? token + get(a.wpe, unwrap(a.positions)[n], c) : token);
    }
  });
}

// Each task processes a slice of channels. Every element of the embedding tables is therefore summed by a
// single task, in row order.
void embedding_backward(const ExecContext& ctx, const EmbeddingBackwardArgs& a) noexcept {
  constexpr int64_t kSlice = 64;
  const int64_t cols = a.dout.cols();
  const auto accumulate = [](const TensorView& d, int64_t row, int64_t c, double x) {
    set(d, row, c, get(d, row, c) + x);
  };
  ctx.pool.parallel_for((cols + kSlice - 1) / kSlice, [&](int64_t task, int) {
    const int64_t begin = task * kSlice;
    const int64_t end = std::min(cols, begin + kSlice);
    if (!a.accumulate_wte) clear_columns(a.dwte, begin, end);
    if (!a.accumulate_wpe) clear_columns(a.dwpe, begin, end);
    for (int64_t n = 0; n < a.dout.rows(); ++n) {
      for (int64_t c = begin; c < end; ++c) {
        if (a.dwte) accumulate(a.dwte, unwrap(a.ids)[n], c, get(a.dout, n, c));
        if (a.dwpe) accumulate(a.dwpe, unwrap(a.positions)[n], c, get(a.dout, n, c));
      }
    }
  });
}

}  // namespace gpt::ref
