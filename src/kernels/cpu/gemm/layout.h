#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/kernel_table.h"

// How matrices are laid out for the products of one instruction set and type.

namespace gpt::gemm {

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

inline constexpr int64_t kUnitBytes = sizeof(uint32_t);
inline constexpr int64_t kLine = 64 / kUnitBytes;  // units of a cache line
inline constexpr int64_t kMaxRows = 32;            // of a tile, in any kernel
inline constexpr int64_t kMaxWidth = 32;           // of a strip
inline constexpr int64_t kMaxBlock = 512;          // units of k, in any kernel
inline constexpr int64_t kPadding =
    16;  // units between rows of A that were made: keeps their cache lines apart

// A packed matrix is strips of nr columns, each [k][nr]: units where `stored` is f32, else 16-bit elements,
// which become units where they are used.
struct Layout {
  Kernels kernels;
  Form form;
  DType stored = DType::f32;

  int64_t units(int64_t k) const { return ceil_div(k, kernels.per_unit); }
  int64_t strips(int64_t n) const { return ceil_div(n, kernels.nr); }
  // Equal blocks, of the length alone, because the sum's order is part of the result.
  int64_t block(int64_t units) const {
    const int64_t blocks = std::max<int64_t>(1, ceil_div(units, kernels.max_block));
    return std::max<int64_t>(16, round_up(ceil_div(units, blocks), 16));
  }
};

// Whether there are kernels for products in this type.
bool has_layout(Isa isa, DType compute);
Layout layout_of(Isa isa, DType compute);

inline const std::byte* element(const TensorView& t, int64_t r, int64_t c) {
  return static_cast<const std::byte*>(t.data) + t.offset(r, c) * static_cast<int64_t>(dtype_size(t.dtype));
}

}  // namespace gpt::gemm
