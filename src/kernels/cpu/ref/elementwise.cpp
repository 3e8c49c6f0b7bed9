#include "kernels/cpu/attention_util.h"
#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

void add(const ExecContext& ctx, const AddArgs& a) noexcept {
  for_rows(ctx, a.out.rows(), [&](int64_t n) {
    for (int64_t c = 0; c < a.out.cols(); ++c)
      set(a.out, n, c, get(a.a, n, c) + get(a.b, n, c));
  });
}

void scale(const ExecContext& ctx, const ScaleArgs& a) noexcept {
  for_rows(ctx, a.x.rows(), [&](int64_t n) {
    for (int64_t c = 0; c < a.x.cols(); ++c)
      set(a.x, n, c, a.factor * get(a.x, n, c));
  });
}

void ema(const ExecContext& ctx, const EmaArgs& a) noexcept {
  if (unwrap(a.step)->grad_scale == 0) return;
  dispatch(ctx, a.average.dtype, [&]<class T>(T) {
    constexpr int64_t kPiece = 4096;
    const auto weight =
        static_cast<T>(std::max(1 - a.decay, 1 / static_cast<double>(unwrap(a.step)->updates)));
    T* average = a.average.as<T>();
    const T* x = a.x.as<T>();
    const int64_t size = a.x.size();
    ctx.pool.parallel_for((size + kPiece - 1) / kPiece, [&](int64_t piece, int) {
      for (int64_t i = piece * kPiece; i < std::min(size, (piece + 1) * kPiece); ++i)
        average[i] += weight * (x[i] - average[i]);
    });
  });
}

void dropout(const ExecContext& ctx, const DropoutArgs& a) noexcept {
  const DropoutMask mask(a.dropout);
  const int64_t cols = a.out.cols();
  for_rows(ctx, a.out.rows(), [&](int64_t n) {
    for (int64_t c = 0; c < cols; ++c)
      set(a.out, n, c, get(a.x, n, c) * mask.factor((a.dropout.first_row + n) * cols + c));
  });
}

void clamp(const ExecContext& ctx, const ClampArgs& a) noexcept {
  dispatch(ctx, a.x.dtype, [&]<class T>(T) {
    const T limit = static_cast<T>(a.step ? a.limit * unwrap(a.step)->loss_scale : a.limit);
    for_rows(ctx, a.x.rows(), [&](int64_t n) {
      T* x = a.x.row<T>(n);
      for (int64_t c = 0; c < a.x.cols(); ++c)
        x[c] = x[c] > limit ? limit : x[c] < -limit ? -limit : x[c];
    });
  });
}

void sum_squares(const ExecContext& ctx, const SumSquaresArgs& a) noexcept {
  dispatch(ctx, a.x.dtype, [&]<class T>(T) {
    const int64_t size = a.x.size();
    const T* x = a.x.as<T>();
    ctx.pool.parallel_for((size + kSumBlock - 1) / kSumBlock, [&](int64_t block, int) {
      double sum = 0;
      for (int64_t i = block * kSumBlock; i < std::min(size, (block + 1) * kSumBlock); ++i)
        sum += double{x[i]} * x[i];
      unwrap(a.block_sums)[block] = sum;
    });
  });
}

}  // namespace gpt::ref
