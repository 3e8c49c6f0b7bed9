#include <algorithm>

#include "kernels/cpu/quant/driver_parts.h"
#include "kernels/cpu/quant/quant.h"
#include "kernels/quant.h"

// Products with rows of blocks where they are, in a mapped file say; the definition is in kernels/quant.h.

namespace gpt::quant {
namespace {

class RowProduct {
 public:
  RowProduct(const ExecContext& ctx, const LinearArgs& a)
      : ctx_(ctx),
        a_(a),
        kernels_(kernels_of(ctx.kernels.isa)),
        blocks_(a.w.cols() / kQuantBlock),
        x_stride_(row_act_bytes(blocks_)),
        w_stride_(row_bytes(a.w.dtype, a.w.ld)) {}

  void run() const {
    quantize(ctx_, a_.x, a_.w.cols(), kernels_.product.quantize_rows, 0, quantized(), x_stride_);
    const int64_t pieces = ceil_div(a_.w.rows(), kStrip);
    const int64_t per_task = strips_per_task(pieces, kStrip * w_stride_);
    ctx_.pool.parallel_streams(ceil_div(pieces, per_task), [&](int64_t task, int thread) {
      const int64_t first = task * per_task, end = std::min(pieces, first + per_task);
      for (int64_t row = 0; row < a_.y.rows(); row += kRowsAtOnce) {
        const int64_t rows = std::min<int64_t>(kRowsAtOnce, a_.y.rows() - row);
        for (int64_t piece = first; piece < end; ++piece)
          multiply(row, rows, piece * kStrip, ctx_.scratch.thread<float>(thread));
      }
    });
  }

 private:
  uint8_t* quantized() const { return ctx_.scratch.all<uint8_t>(); }

  // Up to kStrip columns from `col`.
  void multiply(int64_t row, int64_t rows, int64_t col, float* sums) const {
    const int64_t cols = std::min(kStrip, a_.w.rows() - col);
    kernels_.product.multiply_rows({.dtype = a_.w.dtype,
                                    .rows = rows,
                                    .outputs = cols,
                                    .blocks = blocks_,
                                    .x = quantized() + row * x_stride_,
                                    .x_stride = x_stride_,
                                    .w = static_cast<const uint8_t*>(a_.w.data) + col * w_stride_,
                                    .w_stride = w_stride_,
                                    .bias = a_.bias ? a_.bias.as<float>() + col : nullptr,
                                    .y = sums,
                                    .y_stride = kStrip});
    finish(kernels_, a_, row, rows, col, cols, sums);
  }

  const ExecContext& ctx_;
  const LinearArgs& a_;
  const Kernels kernels_;
  const int64_t blocks_, x_stride_, w_stride_;
};

}  // namespace

void linear_forward_rows(const ExecContext& ctx, const LinearArgs& args) {
  RowProduct(ctx, args).run();
}

}  // namespace gpt::quant
