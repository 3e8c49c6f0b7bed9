#include <algorithm>

#include "kernels/cpu/drivers/drivers.h"
#include "kernels/cpu/quant/kernels.h"
#include "kernels/cpu/quant/quant.h"
#include "kernels/cpu/streaming.h"
#include "kernels/quant.h"

// Cuts products with quantised weights into tasks, by shape alone, and runs the kernels:
//
//   quantise x to blocks of int8
//   for tasks of kRowsPerTask rows and some panels of 32 outputs     in parallel
//     for panels                                                     read once, in order
//       kernel: y[rows, 32]; then bias, activation and conversion

namespace gpt::quant {
namespace {

struct Kernels {
  QuantKernel product;
  const RowKernels* rows;
};

Kernels kernels_of([[maybe_unused]] Isa isa) {
#ifdef GPT_HAVE_SIMD
  if (isa == Isa::avx2) return {quant_kernel_avx2(), &avx2_row_kernels()};
  if (isa == Isa::avx512) return {quant_kernel_avx512(), &avx512_row_kernels()};
  return {quant_kernel_avx512bf16(), &avx512_row_kernels()};
#else
  return {};  // never called: without SIMD the table holds the reference
#endif
}

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

uint8_t* element(const TensorView& v, int64_t row, int64_t col) {
  return static_cast<uint8_t*>(v.data) + (row * v.ld + col) * static_cast<int64_t>(dtype_size(v.dtype));
}

// Rows of a task: their activations, 40 bytes for every 32 inputs, stay in the second-level cache while the
// panels of the weights are read. A multiple of any kernel's mr.
constexpr int64_t kRowsPerTask = 96;
// The same for rows of blocks, at most: they are expanded again for so many rows of activations.
constexpr int64_t kRowsPerExpansion = 192;

// Panels of 32 outputs that a task takes, of `panels` with `panel_bytes` each: enough that a new place in
// memory costs little, few enough that they stay in the second-level cache and that threads end together.
int64_t panels_per_task(int64_t panels, int64_t panel_bytes) {
  constexpr int64_t kTaskBytes = 128 << 10, kMinTasks = 16;
  const int64_t most = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, panel_bytes));
  return std::clamp<int64_t>(panels / kMinTasks, 1, most);
}

// All rows of x, n elements each, to blocks at dst that are `stride` bytes apart; `row` quantises one.
void quantize(const ExecContext& ctx, const TensorView& x, int64_t n, void (*row)(const QuantizeArgs&),
              int32_t zero_point, uint8_t* dst, int64_t stride) {
  constexpr int64_t kElements = 8192;  // of a task; that few are not worth waking a thread for
  const int64_t rows = x.rows(), per_task = std::max<int64_t>(1, kElements / std::max<int64_t>(1, n));
  ctx.pool.parallel_for(ceil_div(rows, per_task), [&](int64_t task, int) {
    for (int64_t r = task * per_task; r < std::min(rows, (task + 1) * per_task); ++r)
      row({.x = element(x, r, 0),
           .dtype = x.dtype,
           .n = n,
           .zero_point = zero_point,
           .dst = dst + r * stride});
  });
}

// Products [rows,kNr] of `cols` columns from `col` to y, through the activation if there is one; overwrites
// them.
void finish(const Kernels& kernels, const LinearArgs& a, int64_t row, int64_t rows, int64_t col, int64_t cols,
            float* sums) {
  for (int64_t r = row; r < row + rows; ++r, sums += kNr) {
    if (a.act) {
      if (a.pre) kernels.product.store(sums, cols, element(a.pre, r, col), a.pre.dtype);
      drivers::act_kernels(kernels.rows->f32, *a.act).forward(sums, sums, nullptr, cols);
    }
    kernels.product.store(sums, cols, element(a.y, r, col), a.y.dtype);
  }
}

// With packed weights.
class PackedProduct {
 public:
  PackedProduct(const ExecContext& ctx, const LinearArgs& a)
      : ctx_(ctx),
        a_(a),
        kernels_(kernels_of(ctx.kernels.isa)),
        blocks_(a.packed->in / kQuantBlock),
        panel_bytes_(blocks_ * panel_block_bytes(a.packed->dtype)),
        x_stride_(blocks_ * kernels_.product.act_block_bytes) {}

  void run() const {
    quantize(ctx_, a_.x, a_.packed->in, kernels_.product.quantize, zero_point(a_.packed->dtype), quantized(),
             x_stride_);
    const int64_t rows = a_.y.rows(), panels = ceil_div(a_.packed->out, kNr);
    const int64_t per_task = panels_per_task(panels, panel_bytes_);
    const int64_t across = ceil_div(panels, per_task);
    ctx_.pool.parallel_streams(ceil_div(rows, kRowsPerTask) * across, [&](int64_t task, int thread) {
      const int64_t row = task / across * kRowsPerTask, first = task % across * per_task;
      const int64_t n = std::min(kRowsPerTask, rows - row);
      for (int64_t s = first; s < std::min(panels, first + per_task); ++s)
        multiply(row, n, s, thread);
    });
  }

 private:
  uint8_t* quantized() const { return ctx_.scratch.all<uint8_t>(); }

  // One panel of outputs for `rows` rows from `row`.
  void multiply(int64_t row, int64_t rows, int64_t panel, int thread) const {
    const int64_t col = panel * kNr;
    PanelArgs s{.dtype = a_.packed->dtype,
                .rows = rows,
                .cols = std::min(kNr, a_.packed->out - col),
                .blocks = blocks_,
                .x = quantized() + row * x_stride_,
                .x_stride = x_stride_,
                .w = static_cast<const uint8_t*>(a_.packed->data) + panel * panel_bytes_,
                .bias = a_.bias ? a_.bias.as<float>() + col : nullptr,
                .y = element(a_.y, row, col),
                .y_dtype = a_.y.dtype,
                .y_stride = a_.y.ld * static_cast<int64_t>(dtype_size(a_.y.dtype)),
                .prefetch_distance = streaming_distance(ctx_.kernels.isa)};
    if (!a_.act) return kernels_.product.multiply_panel(s);
    auto* sums = ctx_.scratch.thread<float>(thread);
    s.y = reinterpret_cast<uint8_t*>(sums);
    s.y_dtype = DType::f32;
    s.y_stride = kNr * static_cast<int64_t>(sizeof(float));
    kernels_.product.multiply_panel(s);
    finish(kernels_, a_, row, rows, col, s.cols, sums);
  }

  const ExecContext& ctx_;
  const LinearArgs& a_;
  const Kernels kernels_;
  const int64_t blocks_, panel_bytes_, x_stride_;
};

// With rows of blocks where they are, in a mapped file say. A "panel" is kNr of these rows.
class BlockRowProduct {
 public:
  BlockRowProduct(const ExecContext& ctx, const LinearArgs& a)
      : ctx_(ctx),
        a_(a),
        kernels_(kernels_of(ctx.kernels.isa)),
        blocks_(a.w.cols() / kQuantBlock),
        x_stride_(row_act_bytes(blocks_)),
        w_stride_(row_bytes(a.w.dtype, a.w.ld)) {}

  void run() const {
    const bool many = a_.y.rows() >= kManyRows;
    const QuantKernel& k = kernels_.product;
    quantize(ctx_, a_.x, a_.w.cols(),
             many                     ? k.quantize_transposed
             : has_halves(a_.w.dtype) ? k.quantize_halves
                                      : k.quantize_rows,
             0, quantized(), x_stride_);
    const int64_t panels = ceil_div(a_.w.rows(), kNr);
    const int64_t per_task = panels_per_task(panels, kNr * w_stride_);
    ctx_.pool.parallel_streams(ceil_div(panels, per_task), [&](int64_t task, int thread) {
      const int64_t first = task * per_task, end = std::min(panels, first + per_task);
      if (many) return multiply_many(first, end, thread);
      for (int64_t row = 0; row < a_.y.rows(); row += kRowsAtOnce) {
        const int64_t rows = std::min<int64_t>(kRowsAtOnce, a_.y.rows() - row);
        for (int64_t panel = first; panel < end; ++panel)
          multiply(row, rows, panel * kNr, ctx_.scratch.thread<float>(thread));
      }
    });
  }

 private:
  // So many rows pay for expanding blocks in memory.
  static constexpr int64_t kManyRows = 8;

  void multiply_many(int64_t first, int64_t end, int thread) const {
    constexpr int64_t kBytes = 512 << 10;  // of activations, in the second-level cache
    auto* sums = ctx_.scratch.thread<float>(thread);
    auto* expanded = reinterpret_cast<uint8_t*>(sums + kRowsPerExpansion * kNr);
    const int64_t at_once = std::clamp<int64_t>(kBytes / x_stride_ / 2 * 2, 16, kRowsPerExpansion);
    for (int64_t row = 0; row < a_.y.rows(); row += at_once) {
      const int64_t rows = std::min(at_once, a_.y.rows() - row);
      for (int64_t panel = first; panel < end; ++panel)
        multiply_expanded_panel(row, rows, panel * kNr, sums, expanded);
    }
  }

  // Up to kNr columns from `col`.
  void multiply_expanded_panel(int64_t row, int64_t rows, int64_t col, float* sums, uint8_t* expanded) const {
    const int64_t cols = std::min(kNr, a_.w.rows() - col);
    for (int64_t c = 0; c < cols; c += kExpandedColumns) {
      kernels_.product.multiply_expanded(
          {.dtype = a_.w.dtype,
           .rows = rows,
           .outputs = std::min(kExpandedColumns, cols - c),
           .blocks = blocks_,
           .x = quantized() + row * x_stride_,
           .x_stride = x_stride_,
           .source = static_cast<const uint8_t*>(a_.w.data) + (col + c) * w_stride_,
           .source_stride = w_stride_,
           .w = expanded,
           .w_stride = expanded_bytes(blocks_),
           .bias = a_.bias ? a_.bias.as<float>() + col + c : nullptr,
           .y = sums + c,
           .y_stride = kNr});
    }
    finish(kernels_, a_, row, rows, col, cols, sums);
  }

  uint8_t* quantized() const { return ctx_.scratch.all<uint8_t>(); }

  // Up to kNr columns from `col`.
  void multiply(int64_t row, int64_t rows, int64_t col, float* sums) const {
    const int64_t cols = std::min(kNr, a_.w.rows() - col);
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
                                    .y_stride = kNr});
    finish(kernels_, a_, row, rows, col, cols, sums);
  }

  const ExecContext& ctx_;
  const LinearArgs& a_;
  const Kernels kernels_;
  const int64_t blocks_, x_stride_, w_stride_;
};

}  // namespace

void linear_forward(const ExecContext& ctx, const LinearArgs& args) {
  ctx.scratch.require(scratch_need(args.x.rows(), args.packed->in));
  PackedProduct(ctx, args).run();
}

void linear_forward_rows(const ExecContext& ctx, const LinearArgs& args) {
  ctx.scratch.require(scratch_need(args.x.rows(), args.w.cols()));
  BlockRowProduct(ctx, args).run();
}

ScratchNeed scratch_need(int64_t rows, int64_t in) {
  const int64_t blocks = in / kQuantBlock;
  return {.shared = rows * std::max(blocks * kMaxActBlockBytes, row_act_bytes(blocks)),
          .per_thread = kRowsPerExpansion * kNr * static_cast<int64_t>(sizeof(float)) +
                        kExpandedColumns * expanded_bytes(blocks)};
}

}  // namespace gpt::quant
