#pragma once

#include <algorithm>

#include "kernels/cpu/drivers/drivers.h"
#include "kernels/cpu/quant/quant_kernel.h"

// What products of packed matrices and of rows of blocks have in common.

namespace gpt::quant {

struct Kernels {
  QuantKernel product;
  const RowKernels* rows;
};

inline Kernels kernels_of([[maybe_unused]] Isa isa) {
#ifdef GPT_HAVE_SIMD
  if (isa == Isa::avx2) return {quant_kernel_avx2(), &avx2_row_kernels()};
  if (isa == Isa::avx512) return {quant_kernel_avx512(), &avx512_row_kernels()};
  return {quant_kernel_avx512bf16(), &avx512_row_kernels()};
#else
  return {};  // never called: without SIMD the table holds the reference
#endif
}

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

inline uint8_t* element(const TensorView& v, int64_t row, int64_t col) {
  return static_cast<uint8_t*>(v.data) + (row * v.ld + col) * static_cast<int64_t>(dtype_size(v.dtype));
}

// Rows of a task: their activations, 40 bytes for every 32 inputs, stay in the second-level cache while the
// strips of the weights pass by. A multiple of the rows of any kernel's tile.
inline constexpr int64_t kRowsPerTask = 96;
// The same for rows of blocks, at most: they are expanded again for so many rows of activations.
inline constexpr int64_t kRowsPerExpansion = 192;

// Strips of 32 outputs that a task takes, of `strips` with `strip_bytes` each: enough that a new place in
// memory costs little, few enough that they stay in the second-level cache and that threads end together.
inline int64_t strips_per_task(int64_t strips, int64_t strip_bytes) {
  constexpr int64_t kTaskBytes = 128 << 10, kMinTasks = 16;
  const int64_t most = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, strip_bytes));
  return std::clamp<int64_t>(strips / kMinTasks, 1, most);
}

// All rows of x, n elements each, to blocks at dst that are `stride` bytes apart; `row` quantises one.
inline void quantize(const ExecContext& ctx, const TensorView& x, int64_t n, void (*row)(const QuantizeArgs&),
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

// Sums [rows,kStrip] of `cols` columns from `col` to y, through the activation if there is one; overwrites
// them.
inline void finish(const Kernels& kernels, const LinearArgs& a, int64_t row, int64_t rows, int64_t col,
                   int64_t cols, float* sums) {
  for (int64_t r = row; r < row + rows; ++r, sums += kStrip) {
    if (a.act) {
      if (a.pre) kernels.product.store(sums, cols, element(a.pre, r, col), a.pre.dtype);
      drivers::act_kernels(kernels.rows->f32, *a.act).forward(sums, sums, nullptr, cols);
    }
    kernels.product.store(sums, cols, element(a.y, r, col), a.y.dtype);
  }
}

}  // namespace gpt::quant
