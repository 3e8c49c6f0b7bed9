#include "kernels/cpu/gemm/packed.h"

#include <algorithm>

#include "kernels/cpu/gemm/packed_kernel.h"
#include "kernels/cpu/gemm/split.h"

namespace gpt::gemm {
namespace {

constexpr int64_t kMaxBlock = 320;  // of k: a strip of B, 32 columns wide, is then 40 KiB
constexpr int64_t kTileRows =
    kMaxSplitRows;                       // 192 x 320 of A are 240 KiB: a quarter of the second-level cache
constexpr int64_t kFewRows = 48;         // up to here every element of B is packed where it is used
constexpr int64_t kPanelSize = 1 << 20;  // elements of B packed at a time: 4 MiB, for the third-level cache
constexpr int64_t kPanelDepth = 2048;    // of k
constexpr int64_t kMinTasks = 16;        // so that 2 threads end together, and 7 nearly so
constexpr int64_t kMaxStrip = 32;        // of any kernel

// Block length along k: equal blocks, of k alone, because the sum's order is part of the result.
int64_t k_block(int64_t k) {
  return round_up(ceil_div(k, ceil_div(k, kMaxBlock)), 16);
}

// Strips [from, from + count) of an operand: rows of A, or columns of B given as rows of its transpose.
void pack_strips(const PackedKernel& kernel, const Operand& rows, int64_t count, int64_t k, int64_t strip,
                 bool padded, float* dst) {
  for (int64_t i = 0; i < count; i += strip) {
    const int64_t n = std::min(strip, count - i);
    kernel.pack({.src = rows.at(i, 0).data,
                 .ld = rows.ld,
                 .k_contiguous = !rows.transposed,
                 .count = n,
                 .k = k,
                 .width = padded ? strip : n,
                 .dst = dst + i * k});
  }
}

PackedKernel pick_kernel([[maybe_unused]] Isa isa) {
#ifdef GPT_HAVE_SIMD
  return isa >= Isa::avx512 ? packed_kernel_avx512() : packed_kernel_avx2();
#else
  return {};  // never called: without SIMD the table holds the reference
#endif
}

Operand transpose(const Operand& o) {
  return {o.data, o.ld, !o.transposed};
}

class Multiplier {
 public:
  Multiplier(const ExecContext& ctx, Isa isa, const Product& p)
      : ctx_(ctx), p_(p), kernel_(pick_kernel(isa)), block_(k_block(p.k)) {}

  void run() {
    if (p_.may_split_k && splits_k(p_.m, p_.n, p_.k)) {
      split_k(ctx_, p_, [this](const Product& part, int thread) { alone(part, thread); });
    } else if (p_.m <= kFewRows) {
      few_rows();
    } else {
      many_rows();
    }
  }

 private:
  // The product of part of A and B on one thread; at most kTileRows rows.
  void alone(const Product& p, int thread) const {
    float* a = ctx_.scratch.thread<float>(thread);
    float* b = a + kTileRows * kMaxBlock;
    for (int64_t l = 0; l < p.k; l += block_) {
      const int64_t k = std::min(block_, p.k - l);
      const Operand rows = p.a.at(0, l);
      pack_strips(kernel_, rows, p.m, k, kernel_.mr, false, a);
      for (int64_t j = 0; j < p.n; j += kernel_.nr) {
        const int64_t cols = std::min(kernel_.nr, p.n - j);
        pack_strips(kernel_, transpose(p.b.at(l, j)), cols, k, kernel_.nr, true, b);
        kernel_.block({.rows = p.m,
                       .cols = cols,
                       .k = k,
                       .a = a,
                       .b = b,
                       .c = p.c + j,
                       .ldc = p.ldc,
                       .bias = p.bias && l + k == p.k ? p.bias + j : nullptr,
                       .add = p.accumulate || l > 0});
      }
    }
  }

  // One strip of columns by few rows, each element of B read once, in place.
  void thin(const Product& p) const {
    for (int64_t l = 0; l < p.k; l += block_) {
      const int64_t k = std::min(block_, p.k - l);
      const Operand b = p.b.at(l, 0);
      kernel_.thin({.rows = p.m,
                    .k = k,
                    .a = p.a.at(0, l).data,
                    .lda = p.a.ld,
                    .b = b.data,
                    .ldb = b.ld,
                    .c = p.c,
                    .ldc = p.ldc,
                    .bias = l + k == p.k ? p.bias : nullptr,
                    .add = p.accumulate || l > 0});
    }
  }

  void few_rows() const {
    const bool in_place = p_.m <= kMaxThinRows && !p_.a.transposed && p_.b.transposed;
    const int64_t cols = kernel_.nr * (in_place ? 2 : 4);  // packing A, once per task, costs more then
    ctx_.pool.parallel_for(ceil_div(p_.n, cols), [&](int64_t task, int thread) {
      const int64_t end = std::min(p_.n, (task + 1) * cols);
      int64_t j = task * cols;
      for (; in_place && j + kernel_.nr <= end; j += kernel_.nr)
        thin(columns(j, kernel_.nr));
      if (j < end) alone(columns(j, end - j), thread);
    });
  }

  Product columns(int64_t from, int64_t n) const {
    Product part = p_;
    part.n = n;
    part.b = p_.b.at(0, from);
    part.c = p_.c + from;
    if (p_.bias) part.bias = p_.bias + from;
    return part;
  }

  // Packs a panel of B with all threads, multiplies all rows by it, goes on to the next panel.
  void many_rows() const {
    const int64_t depth = std::max<int64_t>(1, kPanelDepth / block_) * block_;
    const int64_t width = std::max<int64_t>(1, kPanelSize / std::min(p_.k, depth) / kernel_.nr) * kernel_.nr;
    for (int64_t j = 0; j < p_.n; j += width) {
      for (int64_t l = 0; l < p_.k; l += depth) {
        const Panel panel{j, std::min(width, p_.n - j), l, std::min(depth, p_.k - l)};
        pack_panel(panel);
        multiply_panel(panel);
      }
    }
  }

  struct Panel {
    int64_t col, cols, from, depth;
  };

  // Where block `l` of k (counted from the panel's first) starts: strips of all columns, block by block.
  float* panel_data(const Panel& panel, int64_t l) const {
    return ctx_.scratch.all<float>() + l * round_up(panel.cols, kernel_.nr);
  }

  void pack_panel(const Panel& panel) const {
    const int64_t strips = ceil_div(panel.cols, kernel_.nr);
    ctx_.pool.parallel_for(strips * ceil_div(panel.depth, block_), [&](int64_t task, int) {
      const int64_t l = task / strips * block_;
      const int64_t j = task % strips * kernel_.nr;
      const int64_t k = std::min(block_, panel.depth - l);
      pack_strips(kernel_, transpose(p_.b.at(panel.from + l, panel.col + j)),
                  std::min(kernel_.nr, panel.cols - j), k, kernel_.nr, true, panel_data(panel, l) + j * k);
    });
  }

  void multiply_panel(const Panel& panel) const {
    const int64_t tile_m =
        std::min(kTileRows / kernel_.mr, ceil_div(ceil_div(p_.m, kMinTasks), kernel_.mr)) * kernel_.mr;
    const int64_t n_m = ceil_div(p_.m, tile_m);
    const int64_t strips = ceil_div(panel.cols, kernel_.nr);
    const int64_t tile_n = ceil_div(strips, std::min(strips, ceil_div(kMinTasks, n_m))) * kernel_.nr;
    ctx_.pool.parallel_for(n_m * ceil_div(panel.cols, tile_n), [&](int64_t task, int thread) {
      const int64_t i = task % n_m * tile_m;
      const int64_t j = task / n_m * tile_n;
      multiply_tile(panel, i, std::min(tile_m, p_.m - i), j, std::min(tile_n, panel.cols - j), thread);
    });
  }

  void multiply_tile(const Panel& panel, int64_t i, int64_t rows, int64_t j, int64_t cols, int thread) const {
    float* a = ctx_.scratch.thread<float>(thread);
    for (int64_t l = 0; l < panel.depth; l += block_) {
      const int64_t k = std::min(block_, panel.depth - l);
      const int64_t from = panel.from + l;
      const int64_t col = panel.col + j;
      pack_strips(kernel_, p_.a.at(i, from), rows, k, kernel_.mr, false, a);
      kernel_.block({.rows = rows,
                     .cols = cols,
                     .k = k,
                     .a = a,
                     .b = panel_data(panel, l) + j * k,
                     .c = p_.c + i * p_.ldc + col,
                     .ldc = p_.ldc,
                     .bias = p_.bias && from + k == p_.k ? p_.bias + col : nullptr,
                     .add = p_.accumulate || from > 0});
    }
  }

  const ExecContext& ctx_;
  const Product& p_;
  PackedKernel kernel_;
  int64_t block_;
};

}  // namespace

void packed_multiply(const ExecContext& ctx, Isa isa, const Product& p) {
  Multiplier(ctx, isa, p).run();
}

// A bound that grows with each size: panels are at most kPanelDepth deep, and their strips are whole.
ScratchNeed packed_scratch(int64_t m, int64_t n, int64_t k) {
  const int64_t depth = std::min(k, kPanelDepth);
  const int64_t panel = m > kFewRows ? std::min(depth * n, kPanelSize) + depth * kMaxStrip : 0;
  const auto bytes = static_cast<int64_t>(sizeof(float));
  return {.shared = panel * bytes, .per_thread = (kTileRows + kMaxStrip) * kMaxBlock * bytes};
}

}  // namespace gpt::gemm
