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
    const bool many = a_.y.rows() >= kManyRows;
    quantize(ctx_, a_.x, a_.w.cols(),
             many ? kernels_.product.quantize_turned_rows : kernels_.product.quantize_rows, 0, quantized(),
             x_stride_);
    const int64_t pieces = ceil_div(a_.w.rows(), kStrip);
    const int64_t per_task = strips_per_task(pieces, kStrip * w_stride_);
    ctx_.pool.parallel_streams(ceil_div(pieces, per_task), [&](int64_t task, int thread) {
      const int64_t first = task * per_task, end = std::min(pieces, first + per_task);
      if (many) return multiply_many(first, end, thread);
      for (int64_t row = 0; row < a_.y.rows(); row += kRowsAtOnce) {
        const int64_t rows = std::min<int64_t>(kRowsAtOnce, a_.y.rows() - row);
        for (int64_t piece = first; piece < end; ++piece)
          multiply(row, rows, piece * kStrip, ctx_.scratch.thread<float>(thread));
      }
    });
  }

 private:
  // So many rows pay for expanding blocks in memory.
  static constexpr int64_t kManyRows = 8;

  void multiply_many(int64_t first, int64_t end, int thread) const {
    constexpr int64_t kBytes = 512 << 10;  // of activations, in the second-level cache
    auto* sums = ctx_.scratch.thread<float>(thread);
    auto* expanded = reinterpret_cast<uint8_t*>(sums + kRowsPerExpansion * kStrip);
    const int64_t at_once = std::clamp<int64_t>(kBytes / x_stride_ / 2 * 2, 16, kRowsPerExpansion);
    for (int64_t row = 0; row < a_.y.rows(); row += at_once) {
      const int64_t rows = std::min(at_once, a_.y.rows() - row);
      for (int64_t piece = first; piece < end; ++piece)
        multiply_piece(row, rows, piece * kStrip, sums, expanded);
    }
  }

  // Up to kStrip columns from `col`.
  void multiply_piece(int64_t row, int64_t rows, int64_t col, float* sums, uint8_t* expanded) const {
    const int64_t cols = std::min(kStrip, a_.w.rows() - col);
    for (int64_t c = 0; c < cols; c += kExpandedOutputs) {
      kernels_.product.multiply_row_tiles(
          {.dtype = a_.w.dtype,
           .rows = rows,
           .outputs = std::min(kExpandedOutputs, cols - c),
           .blocks = blocks_,
           .x = quantized() + row * x_stride_,
           .x_stride = x_stride_,
           .source = static_cast<const uint8_t*>(a_.w.data) + (col + c) * w_stride_,
           .source_stride = w_stride_,
           .w = expanded,
           .w_stride = expanded_bytes(blocks_),
           .bias = a_.bias ? a_.bias.as<float>() + col + c : nullptr,
           .y = sums + c,
           .y_stride = kStrip});
    }
    finish(kernels_, a_, row, rows, col, cols, sums);
  }

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
