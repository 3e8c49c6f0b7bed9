#include <algorithm>

#include "kernels/cpu/quant/driver_parts.h"
#include "kernels/cpu/quant/quant.h"
#include "kernels/cpu/streaming.h"
#include "kernels/quant.h"

// Cuts a product into tasks and runs the kernels; the definition is in kernels/quant.h.

namespace gpt::quant {
namespace {

class Product {
 public:
  Product(const ExecContext& ctx, const LinearArgs& a)
      : ctx_(ctx),
        a_(a),
        kernels_(kernels_of(ctx.kernels.isa)),
        blocks_(a.packed->in / kQuantBlock),
        strip_bytes_(blocks_ * strip_block_bytes(a.packed->dtype)),
        x_stride_(blocks_ * kernels_.product.act_block_bytes) {}

  void run() const {
    quantize(ctx_, a_.x, a_.packed->in, kernels_.product.quantize, zero_point(a_.packed->dtype), quantized(),
             x_stride_);
    const int64_t rows = a_.y.rows(), strips = ceil_div(a_.packed->out, kStrip);
    const int64_t per_task = strips_per_task(strips, strip_bytes_);
    const int64_t across = ceil_div(strips, per_task);
    ctx_.pool.parallel_streams(ceil_div(rows, kRowsPerTask) * across, [&](int64_t task, int thread) {
      const int64_t row = task / across * kRowsPerTask, first = task % across * per_task;
      const int64_t n = std::min(kRowsPerTask, rows - row);
      for (int64_t s = first; s < std::min(strips, first + per_task); ++s)
        multiply(row, n, s, thread);
    });
  }

 private:
  uint8_t* quantized() const { return ctx_.scratch.all<uint8_t>(); }

  // One strip of outputs for `rows` rows from `row`.
  void multiply(int64_t row, int64_t rows, int64_t strip, int thread) const {
    const int64_t col = strip * kStrip;
    StripArgs s{.dtype = a_.packed->dtype,
                .rows = rows,
                .cols = std::min(kStrip, a_.packed->out - col),
                .blocks = blocks_,
                .x = quantized() + row * x_stride_,
                .x_stride = x_stride_,
                .w = static_cast<const uint8_t*>(a_.packed->data) + strip * strip_bytes_,
                .bias = a_.bias ? a_.bias.as<float>() + col : nullptr,
                .y = element(a_.y, row, col),
                .y_dtype = a_.y.dtype,
                .y_stride = a_.y.ld * static_cast<int64_t>(dtype_size(a_.y.dtype)),
                .ahead = streaming_distance(ctx_.kernels.isa)};
    if (!a_.act) return kernels_.product.strip(s);
    auto* sums = ctx_.scratch.thread<float>(thread);
    s.y = reinterpret_cast<uint8_t*>(sums);
    s.y_dtype = DType::f32;
    s.y_stride = kStrip * static_cast<int64_t>(sizeof(float));
    kernels_.product.strip(s);
    finish(kernels_, a_, row, rows, col, s.cols, sums);
  }

  const ExecContext& ctx_;
  const LinearArgs& a_;
  const Kernels kernels_;
  const int64_t blocks_, strip_bytes_, x_stride_;
};

}  // namespace

void linear_forward(const ExecContext& ctx, const LinearArgs& args) {
  Product(ctx, args).run();
}

ScratchNeed scratch_need(int64_t rows, int64_t in) {
  const int64_t blocks = in / kQuantBlock;
  return {.shared = rows * std::max(blocks * kMaxActBlockBytes, row_act_bytes(blocks)),
          .per_thread = kRowsPerExpansion * kStrip * static_cast<int64_t>(sizeof(float)) +
                        kExpandedOutputs * expanded_bytes(blocks)};
}

}  // namespace gpt::quant
