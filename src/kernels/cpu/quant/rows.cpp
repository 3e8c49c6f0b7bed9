#include <algorithm>

#include "kernels/cpu/drivers/drivers.h"
#include "kernels/cpu/quant/kernels_of.h"
#include "kernels/cpu/quant/quant.h"
#include "kernels/quant.h"

// Products with rows of blocks where they are, in a mapped file say; the definition is in kernels/quant.h.

namespace gpt::quant {
namespace {

// Weights of a task: enough that a new place in memory costs little, few enough that they stay in the
// second-level cache while the rows of x pass, and that threads end together.
constexpr int64_t kTaskBytes = 128 << 10;
constexpr int64_t kMinTasks = 16;
constexpr int64_t kQuantizeElements = 8192;  // by one task; that few are not worth waking a thread for

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

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
    quantize();
    const int64_t pieces = ceil_div(a_.w.rows(), kStrip);
    const int64_t most = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, kStrip * w_stride_));
    const int64_t per_task = std::clamp<int64_t>(pieces / kMinTasks, 1, most);
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

  void quantize() const {
    const int64_t rows = a_.x.rows(), n = a_.w.cols();
    const int64_t per_task = std::max<int64_t>(1, kQuantizeElements / std::max<int64_t>(1, n));
    ctx_.pool.parallel_for(ceil_div(rows, per_task), [&](int64_t task, int) {
      for (int64_t r = task * per_task; r < std::min(rows, (task + 1) * per_task); ++r) {
        kernels_.product.quantize_rows({.x = element(a_.x, r, 0),
                                        .dtype = a_.x.dtype,
                                        .n = n,
                                        .zero_point = 0,
                                        .dst = quantized() + r * x_stride_});
      }
    });
  }

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
    for (int64_t r = 0; r < rows; ++r, sums += kStrip) {
      if (a_.act) {
        if (a_.pre) kernels_.product.store(sums, cols, element(a_.pre, row + r, col), a_.pre.dtype);
        drivers::act_kernels(kernels_.rows->f32, *a_.act).forward(sums, sums, nullptr, cols);
      }
      kernels_.product.store(sums, cols, element(a_.y, row + r, col), a_.y.dtype);
    }
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
