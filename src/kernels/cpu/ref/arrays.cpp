#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void range_squares(const ExecContext& ctx, const RangeSquaresArgs& a) noexcept {
  dispatch(ctx, a.x.dtype, [&]<class T>(T) {
    ctx.pool.parallel_for(std::ssize(a.ranges), [&](int64_t i, int) {
      const ElementRange& range = a.ranges[static_cast<size_t>(i)];
      const T* x = a.x.as<T>();
      double sum = 0;
      for (int64_t begin = range.begin; begin < range.end; begin += kSumRun) {
        T run = 0;
        for (int64_t e = begin; e < std::min(begin + kSumRun, range.end); ++e)
          run += x[e] * x[e];
        sum += double{run};
      }
      unwrap(a.sums)[i] = sum;
    });
  });
}

void scaled_sum(const ExecContext& ctx, const ScaledSumArgs& a) noexcept {
  const double a_scale = a.a_scale ? get(a.a_scale, 0, 0) : 1;
  const double b_scale = a.b ? a.b_factor * get(a.b_scale, 0, 0) : 0;
  for_rows(ctx, a.out.rows(), [&](int64_t n) {
    for (int64_t c = 0; c < a.out.cols(); ++c)
      set(a.out, n, c, a_scale * get(a.a, n, c) + (a.b ? b_scale * get(a.b, n, c) : 0));
  });
}

void scaled_sum_backward(const ExecContext& ctx, const ScaledSumBackwardArgs& a) noexcept {
  constexpr int64_t kBlocks = 64;  // number of blocks of rows, independent of the number of threads
  const double scale = a.factor * get(a.scale, 0, 0);
  const int64_t rows = a.dout.rows(), blocks = std::min(rows, kBlocks);
  double sums[kBlocks] = {};
  ctx.pool.parallel_for(blocks, [&](int64_t block, int) {
    for (int64_t n = block * rows / blocks; n < (block + 1) * rows / blocks; ++n) {
      for (int64_t c = 0; c < a.dout.cols(); ++c) {
        const double d = get(a.dout, n, c);
        sums[block] += d * get(a.x, n, c);
        set(a.dx, n, c, (a.accumulate ? get(a.dx, n, c) : 0) + scale * d);
      }
    }
  });
  if (!a.dscale) return;
  double sum = a.accumulate_scale ? get(a.dscale, 0, 0) : 0;
  for (const double part : sums)
    sum += a.factor * part;
  set(a.dscale, 0, 0, sum);
}

void convert(const ExecContext& ctx, const ConvertArgs& a) noexcept {
  for_rows(ctx, a.dst.rows(), [&](int64_t n) {
    for (int64_t c = 0; c < a.dst.cols(); ++c)
      set(a.dst, n, c, get(a.src, n, c));
  });
}

void swap(const ExecContext& ctx, const SwapArgs& a) noexcept {
  const int64_t width = row_bytes(a.a.dtype, a.a.cols());
  for_rows(ctx, a.a.rows(), [&](int64_t n) {
    auto* const row = a.a.slice_rows(n, 1).as<std::byte>();
    std::swap_ranges(row, row + width, a.b.slice_rows(n, 1).as<std::byte>());
  });
}

void find_nonfinite(const ExecContext& ctx, const FindNonfiniteArgs& a) noexcept {
  const int64_t lines = a.x.transposed ? a.x.cols() : a.x.rows();
  const int64_t width = lines > 0 ? a.x.size() / lines : 0;
  TensorView x = make_view(a.x.data, a.x.dtype, {lines, width});  // in memory order
  x.ld = a.x.ld;
  std::atomic<int64_t> first = INT64_MAX;
  for_rows(ctx, lines, [&](int64_t n) {
    for (int64_t c = 0; c < width; ++c) {
      if (std::isfinite(get(x, n, c))) continue;
      const int64_t index = n * width + c;
      int64_t known = first;
      while (index < known && !first.compare_exchange_weak(known, index)) {
      }
      return;
    }
  });
  *unwrap(a.index) = first == INT64_MAX ? -1 : first.load();
}

}  // namespace gpt::ref
