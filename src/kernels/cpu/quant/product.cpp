#include <algorithm>

#include "kernels/cpu/drivers/drivers.h"
#include "kernels/cpu/quant/kernels.h"
#include "kernels/cpu/quant/quant.h"
#include "kernels/cpu/streaming.h"
#include "kernels/quant.h"

// Splits products with quantized weights into tasks, which depend only on the shape, and runs the kernels:
//
//   quantize x to blocks of int8
//   for tasks of kRowsPerTask rows and some panels of 32 outputs     in parallel
//     for panels                                                     each read once, in order
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
  return {};  // never called, because without SIMD the kernel table contains the reference
#endif
}

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

uint8_t* element(const TensorView& v, int64_t row, int64_t col) {
  return static_cast<uint8_t*>(v.data) + (row * v.ld + col) * static_cast<int64_t>(dtype_size(v.dtype));
}

// Number of rows per task. The quantized activations of these rows, 40 bytes for every 32 inputs, stay in L2
// cache while the panels of the weights are read. kRowsPerTask must be a multiple of the micro-tile height
// (mr) of every kernel.
constexpr int64_t kRowsPerTask = 96;
// Number of rows of activations that share one expansion of quantized rows to a panel.
constexpr int64_t kRowsPerExpansion = 512;
// Minimum number of rows of activations for which expanding quantized rows pays off.
constexpr int64_t kManyRows = 8;

// Returns the number of panels of 32 outputs that each task processes. Tasks must be long enough that jumping
// to a new memory location costs little. Tasks must be short enough that their panels stay in L2 cache and
// that all threads finish at about the same time.
int64_t panels_per_task(int64_t panels, int64_t panel_bytes) {
  constexpr int64_t kTaskBytes = 128 << 10, kMinTasks = 16;
  const int64_t most = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, panel_bytes));
  return std::clamp<int64_t>(panels / kMinTasks, 1, most);
}

// Quantizes all rows of x, n elements each, for products with weights of dtype w. `row` quantizes one row.
// The quantized rows are stored at dst, `stride` bytes apart.
void quantize(const ExecContext& ctx, const TensorView& x, int64_t n, DType w,
              void (*row)(const QuantizeArgs&), uint8_t* dst, int64_t stride) {
  constexpr int64_t kElements = 8192;  // elements of a task; fewer are not worth waking a thread
  const int64_t rows = x.rows(), per_task = std::max<int64_t>(1, kElements / std::max<int64_t>(1, n));
  ctx.pool.parallel_for(ceil_div(rows, per_task), [&](int64_t task, int) {
    for (int64_t r = task * per_task; r < std::min(rows, (task + 1) * per_task); ++r)
      row({.x = element(x, r, 0), .dtype = x.dtype, .n = n, .w = w, .dst = dst + r * stride});
  });
}

// Describes a part of y: rows [row, row + rows) and kNr columns starting at `col`. Columns past the end of y
// are skipped.
struct Part {
  int64_t row, rows, col;
};

// The base class of the products with packed weights and with quantized rows.
class Product {
 public:
  Product(const ExecContext& ctx, const LinearArgs& a, int64_t in, int64_t out)
      : ctx_(ctx),
        a_(a),
        kernels_(kernels_of(isa_of(ctx.kernels))),
        blocks_(in / kQuantBlock),
        in_(in),
        out_(out) {}

 protected:
  void quantize_x(DType w, void (*row)(const QuantizeArgs&), int64_t stride) const {
    quantize(ctx_, a_.x, in_, w, row, quantized(), stride);
  }
  uint8_t* quantized() const { return ctx_.scratch.all<uint8_t>(); }
  int64_t columns(int64_t col) const { return std::min(kNr, out_ - col); }
  const float* bias(int64_t col) const { return a_.bias ? a_.bias.as<float>() + col : nullptr; }

  // Computes a part of y with a kernel for panels. w: the panel. sums: buffer [rows,kNr], used only if there
  // is an activation.
  void multiply_panel(void (*kernel)(const PanelArgs&), DType dtype, const uint8_t* w, int64_t x_stride,
                      Part p, float* sums) const {
    PanelArgs s{.dtype = dtype,
                .rows = p.rows,
                .cols = columns(p.col),
                .blocks = blocks_,
                .x = quantized() + p.row * x_stride,
                .x_stride = x_stride,
                .w = w,
                .bias = bias(p.col),
                .y = element(a_.y, p.row, p.col),
                .y_dtype = a_.y.dtype,
                .y_stride = a_.y.ld * static_cast<int64_t>(dtype_size(a_.y.dtype)),
                .prefetch_distance = streaming_distance(isa_of(ctx_.kernels))};
    if (!a_.act) return kernel(s);
    s.y = reinterpret_cast<uint8_t*>(sums);
    s.y_dtype = DType::f32;
    s.y_stride = kNr * static_cast<int64_t>(sizeof(float));
    kernel(s);
    finish(p, sums);
  }

  // Applies the activation, if there is one, to products [rows,kNr]. Then stores the products in the given
  // part of y. Overwrites `sums`.
  void finish(Part p, float* sums) const {
    const int64_t cols = columns(p.col);
    for (int64_t r = p.row; r < p.row + p.rows; ++r, sums += kNr) {
      if (a_.act) {
        if (a_.pre) kernels_.product.store(sums, cols, element(a_.pre, r, p.col), a_.pre.dtype);
        drivers::act_kernels(kernels_.rows->f32, *a_.act).forward(sums, sums, cols);
      }
      kernels_.product.store(sums, cols, element(a_.y, r, p.col), a_.y.dtype);
    }
  }

  const ExecContext& ctx_;
  const LinearArgs& a_;
  const Kernels kernels_;
  const int64_t blocks_;

 private:
  const int64_t in_, out_;
};

// Computes products with packed weights.
class PackedProduct : Product {
 public:
  PackedProduct(const ExecContext& ctx, const LinearArgs& a)
      : Product(ctx, a, a.packed.in, a.packed.out),
        panel_bytes_(blocks_ * panel_block_bytes(a.packed.dtype)),
        x_stride_(blocks_ * kernels_.product.act_block_bytes) {}

  void run() const {
    quantize_x(a_.packed.dtype, kernels_.product.quantize, x_stride_);
    const int64_t rows = a_.y.rows(), panels = ceil_div(a_.packed.out, kNr);
    const int64_t per_task = panels_per_task(panels, panel_bytes_);
    const int64_t across = ceil_div(panels, per_task);
    ctx_.pool.parallel_streams(ceil_div(rows, kRowsPerTask) * across, [&](int64_t task, int thread) {
      const int64_t row = task / across * kRowsPerTask, first = task % across * per_task;
      const int64_t n = std::min(kRowsPerTask, rows - row);
      for (int64_t s = first; s < std::min(panels, first + per_task); ++s)
        multiply_panel(kernels_.product.multiply_panel, a_.packed.dtype,
                       static_cast<const uint8_t*>(a_.packed.data) + s * panel_bytes_, x_stride_,
                       {row, n, s * kNr}, ctx_.scratch.thread<float>(thread));
    });
  }

 private:
  const int64_t panel_bytes_, x_stride_;
};

// Computes products with quantized rows that are read in place, for example from a memory-mapped file. A
// "panel" consists of kNr of these rows.
class BlockRowProduct : Product {
 public:
  BlockRowProduct(const ExecContext& ctx, const LinearArgs& a)
      : Product(ctx, a, a.w.cols(), a.w.rows()),
        many_(a.y.rows() >= kManyRows),
        x_stride_(many_ ? blocks_ * kPanelActBlock : row_act_bytes(blocks_)),
        w_stride_(row_bytes(a.w.dtype, a.w.ld)) {}

  void run() const {
    const QuantKernel& k = kernels_.product;
    quantize_x(a_.w.dtype, many_ ? k.quantize_for_panels : k.quantize_rows, x_stride_);
    const int64_t rows_at_once = many_ ? kRowsPerExpansion : kRowsAtOnce;
    const int64_t panels = ceil_div(a_.w.rows(), kNr);
    const int64_t per_task = panels_per_task(panels, kNr * w_stride_);
    ctx_.pool.parallel_streams(ceil_div(panels, per_task), [&](int64_t task, int thread) {
      const int64_t first = task * per_task, end = std::min(panels, first + per_task);
      for (int64_t row = 0; row < a_.y.rows(); row += rows_at_once) {
        const int64_t rows = std::min(rows_at_once, a_.y.rows() - row);
        for (int64_t panel = first; panel < end; ++panel) {
          const Part part = {row, rows, panel * kNr};
          many_ ? multiply_many(part, thread) : multiply_few(part, ctx_.scratch.thread<float>(thread));
        }
      }
    });
  }

 private:
  const uint8_t* w(int64_t row) const { return static_cast<const uint8_t*>(a_.w.data) + row * w_stride_; }

  void multiply_many(Part p, int thread) const {
    auto* sums = ctx_.scratch.thread<float>(thread);
    auto* panel = reinterpret_cast<uint8_t*>(sums + kRowsPerTask * kNr);
    kernels_.product.expand_panel({.dtype = a_.w.dtype,
                                   .outputs = columns(p.col),
                                   .blocks = blocks_,
                                   .w = w(p.col),
                                   .w_stride = w_stride_,
                                   .panel = panel});
    for (const int64_t end = p.row + p.rows; p.row < end; p.row += kRowsPerTask) {
      p.rows = std::min(kRowsPerTask, end - p.row);
      multiply_panel(kernels_.product.multiply_expanded, a_.w.dtype, panel, x_stride_, p, sums);
    }
  }

  void multiply_few(Part p, float* sums) const {
    kernels_.product.multiply_rows({.dtype = a_.w.dtype,
                                    .rows = p.rows,
                                    .outputs = columns(p.col),
                                    .blocks = blocks_,
                                    .x = quantized() + p.row * x_stride_,
                                    .x_stride = x_stride_,
                                    .w = w(p.col),
                                    .w_stride = w_stride_,
                                    .bias = bias(p.col),
                                    .y = sums,
                                    .y_stride = kNr});
    finish(p, sums);
  }

  const bool many_;
  const int64_t x_stride_, w_stride_;
};

}  // namespace

void linear_forward(const ExecContext& ctx, const LinearArgs& args) {
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(scratch_need(args.x.rows(), args.packed.in)));
  PackedProduct(ctx, args).run();
}

void linear_forward_rows(const ExecContext& ctx, const LinearArgs& args) {
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(scratch_need(args.x.rows(), args.w.cols())));
  BlockRowProduct(ctx, args).run();
}

ScratchNeed scratch_need(int64_t rows, int64_t in) {
  const int64_t blocks = in / kQuantBlock;
  return {.shared = rows * std::max(blocks * kMaxActBlockBytes, row_act_bytes(blocks)),
          .per_thread = kRowsPerTask * kNr * static_cast<int64_t>(sizeof(float)) +
                        (rows < kManyRows ? 0 : expanded_bytes(blocks))};
}

}  // namespace gpt::quant
