#include <algorithm>

#include "kernels/cpu/drivers/drivers.h"
#include "kernels/cpu/quant/kernels_of.h"
#include "kernels/cpu/quant/quant.h"
#include "kernels/quant.h"

// Cuts a product into tasks and runs the kernels; the definition is in kernels/quant.h.

namespace gpt::quant {
namespace {

// Rows of a task: their activations, 40 bytes for every 32 inputs, stay in the second-level cache while the
// strips of the weights pass by. A multiple of the rows of any kernel's tile.
constexpr int64_t kRowsPerTask = 96;
// Weights of a task: enough that a new place in memory costs little, few enough that threads end together.
constexpr int64_t kTaskBytes = 128 << 10;
constexpr int64_t kMinTasks = 16;
// Elements quantised by one task; that few are not worth waking a thread for.
constexpr int64_t kQuantizeElements = 8192;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

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
    quantize();
    const int64_t rows = a_.y.rows(), strips = ceil_div(a_.packed->out, kStrip);
    const int64_t most = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, strip_bytes_));
    const int64_t strips_per_task = std::clamp<int64_t>(strips / kMinTasks, 1, most);
    const int64_t across = ceil_div(strips, strips_per_task);
    ctx_.pool.parallel_streams(ceil_div(rows, kRowsPerTask) * across, [&](int64_t task, int thread) {
      const int64_t row = task / across * kRowsPerTask, first = task % across * strips_per_task;
      const int64_t n = std::min(kRowsPerTask, rows - row);
      for (int64_t s = first; s < std::min(strips, first + strips_per_task); ++s)
        multiply(row, n, s, thread);
    });
  }

 private:
  uint8_t* quantized() const { return ctx_.scratch.all<uint8_t>(); }

  void quantize() const {
    const int64_t rows = a_.x.rows(), n = a_.packed->in;
    const int64_t per_task = std::max<int64_t>(1, kQuantizeElements / std::max<int64_t>(1, n));
    ctx_.pool.parallel_for(ceil_div(rows, per_task), [&](int64_t task, int) {
      for (int64_t r = task * per_task; r < std::min(rows, (task + 1) * per_task); ++r) {
        kernels_.product.quantize({.x = element(a_.x, r, 0),
                                   .dtype = a_.x.dtype,
                                   .n = n,
                                   .zero_point = zero_point(a_.packed->dtype),
                                   .dst = quantized() + r * x_stride_});
      }
    });
  }

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
                .y_stride = a_.y.ld * static_cast<int64_t>(dtype_size(a_.y.dtype))};
    if (!a_.act) return kernels_.product.strip(s);
    auto* sums = ctx_.scratch.thread<float>(thread);
    s.y = reinterpret_cast<uint8_t*>(sums);
    s.y_dtype = DType::f32;
    s.y_stride = kStrip * static_cast<int64_t>(sizeof(float));
    kernels_.product.strip(s);
    activate(row, rows, col, s.cols, sums);
  }

  // pre = sums, y = act(sums) for `cols` columns from `col`; sums is overwritten.
  void activate(int64_t row, int64_t rows, int64_t col, int64_t cols, float* sums) const {
    const ActKernels& act = drivers::act_kernels(kernels_.rows->f32, *a_.act);
    for (int64_t r = 0; r < rows; ++r, sums += kStrip) {
      if (a_.pre) kernels_.product.store(sums, cols, element(a_.pre, row + r, col), a_.pre.dtype);
      act.forward(sums, sums, nullptr, cols);
      kernels_.product.store(sums, cols, element(a_.y, row + r, col), a_.y.dtype);
    }
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
          .per_thread = std::clamp<int64_t>(rows, kRowsAtOnce, kRowsPerTask) * kStrip *
                        static_cast<int64_t>(sizeof(float))};
}

}  // namespace gpt::quant
