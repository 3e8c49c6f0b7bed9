#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/kernel_table.h"

// Selects the kernels, and defines the memory layout of packed weights, for matrix products with a given
// instruction set and dtype.
//
//   packed B [k,n]: consecutive micro-panels of nr columns, the last one padded with zeros
//
//     columns 0 .. nr-1   columns nr .. 2nr-1
//   | [k_words][nr]     | [k_words][nr]       | ... |

namespace gpt::gemm {

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

inline constexpr int64_t kWordBytes = sizeof(uint32_t);
inline constexpr int64_t kLineWords = 64 / kWordBytes;  // number of words in a cache line
inline constexpr int64_t kMaxMr = 32;                   // maximum mr of all micro-kernels
inline constexpr int64_t kMaxNr = 32;
inline constexpr int64_t kMaxKc = 512;      // words
inline constexpr int64_t kRowPadding = 16;  // words of padding after each packed row of A; keeps rows in
                                            // different cache sets

struct Layout {
  Kernels kernels;
  PackFormat format;
  // Storage dtype of packed weights: f32 if the weights are stored as 32-bit words, else the 16-bit dtype
  // that the kernel widens.
  DType stored = DType::f32;

  int64_t k_words(int64_t k) const { return ceil_div(k, kernels.k_pack); }
  int64_t panels(int64_t n) const { return ceil_div(n, kernels.nr); }
  // Returns the number of words in a block of k. The result depends only on `words`, because the block length
  // determines the order of a sum and therefore its bits.
  int64_t kc(int64_t words) const {
    const int64_t blocks = std::max<int64_t>(1, ceil_div(words, kernels.max_kc));
    return std::max<int64_t>(16, round_up(ceil_div(words, blocks), 16));
  }
};

// Returns true if there are kernels for products in this dtype.
bool has_layout(Isa isa, DType compute);
Layout layout_of(Isa isa, DType compute);

inline const std::byte* element(const TensorView& t, int64_t r, int64_t c) {
  return static_cast<const std::byte*>(t.data) + t.offset(r, c) * static_cast<int64_t>(dtype_size(t.dtype));
}

}  // namespace gpt::gemm
