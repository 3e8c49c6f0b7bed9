#include <cstring>

#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

void add(const RowKernels& kernels, const ExecContext& ctx, const AddArgs& a) noexcept {
  if (!all_f32(a.out, a.a, a.b)) return ref::add(ctx, a);
  for_rows(ctx, a.out.rows(), a.out.cols(), [&](int64_t n) {
    kernels.add(a.out.row<float>(n), a.a.row<float>(n), a.b.row<float>(n), a.out.cols());
  });
}

void clamp(const RowKernels& kernels, const ExecContext& ctx, const ClampArgs& a) noexcept {
  if (a.x.dtype != DType::f32) return ref::clamp(ctx, a);
  const auto limit = static_cast<float>(a.limit);
  if (a.x.dense()) {  // a whole gradient buffer may come as one long row
    float* x = a.x.as<float>();
    for_pieces(ctx, a.x.size(), [&](int64_t begin, int64_t n) { kernels.clamp(x + begin, n, limit); });
  } else {
    for_rows(ctx, a.x.rows(), a.x.cols(),
             [&](int64_t n) { kernels.clamp(a.x.row<float>(n), a.x.cols(), limit); });
  }
}

void sum_squares(const RowKernels& kernels, const ExecContext& ctx, const SumSquaresArgs& a) noexcept {
  if (a.x.dtype != DType::f32) return ref::sum_squares(ctx, a);
  static_assert(kTaskElements == kSumBlock);
  const float* x = a.x.as<float>();
  for_pieces(ctx, a.x.size(), [&](int64_t begin, int64_t n) {
    a.block_sums[begin / kSumBlock] = kernels.sum_squares(x + begin, n);
  });
}

void dropout(const RowKernels& kernels, const ExecContext& ctx, const DropoutArgs& a) noexcept {
  // As the reference has it: below 2^-32 nothing is dropped.
  const auto threshold = static_cast<uint64_t>(a.dropout.p * 0x1p32);
  if (!all_f32(a.out, a.x) || threshold == 0) return ref::dropout(ctx, a);
  const int64_t cols = a.out.cols();
  for_rows(ctx, a.out.rows(), cols, [&](int64_t n) {
    const DropoutSpan span = {.first = static_cast<uint64_t>((a.dropout.first_row + n) * cols),
                              .key = a.dropout.key,
                              .last_dropped = static_cast<uint32_t>(threshold - 1),
                              .scale = static_cast<float>(1 / (1 - a.dropout.p))};
    kernels.dropout(a.out.row<float>(n), a.x.row<float>(n), cols, span);
  });
}

// Plain copies: the C library has the fastest there are.
void store_rows(const RowKernels&, const ExecContext& ctx, const StoreRowsArgs& a) noexcept {
  if (!all_f32(a.dst, a.src)) return ref::store_rows(ctx, a);
  const int64_t cols = a.src.cols();
  if (cols == 0) return;
  for_rows(ctx, a.src.rows(), cols, [&](int64_t n) {
    std::memcpy(a.dst.row<float>(a.rows[n]), a.src.row<float>(n), static_cast<size_t>(cols) * sizeof(float));
  });
}

}  // namespace gpt::drivers
