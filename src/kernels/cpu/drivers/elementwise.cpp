#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

void add(const RowKernels& kernels, const ExecContext& ctx, const AddArgs& a) noexcept {
  const DType t = a.b.dtype;
  const bool has = all_f32(a.out) && is_activation(t) && (a.a.dtype == t || all_f32(a.a));
  if (!has) return fall_back(ctx, "add", ref::add, a);
  for_rows(ctx, a.out.rows(), a.out.cols(), [&](int64_t n) {
    kernels.add(a.out.row<float>(n), row_at(a.a, n), stored_type(a.a.dtype), row_at(a.b, n), stored_type(t),
                a.out.cols());
  });
}

void clamp(const RowKernels& kernels, const ExecContext& ctx, const ClampArgs& a) noexcept {
  if (a.x.dtype != DType::f32) return fall_back(ctx, "clamp", ref::clamp, a);
  const auto limit = static_cast<float>(a.step ? a.limit * unwrap(a.step)->loss_scale : a.limit);
  if (a.x.dense()) {  // a whole gradient buffer may be passed as a single long row
    float* x = a.x.as<float>();
    for_pieces(ctx, a.x.size(), [&](int64_t begin, int64_t n) { kernels.clamp(x + begin, n, limit); });
  } else {
    for_rows(ctx, a.x.rows(), a.x.cols(),
             [&](int64_t n) { kernels.clamp(a.x.row<float>(n), a.x.cols(), limit); });
  }
}

void convert(const RowKernels& kernels, const ExecContext& ctx, const ConvertArgs& a) noexcept {
  if (!is_activation(a.dst.dtype) || !is_activation(a.src.dtype))
    return fall_back(ctx, "convert", ref::convert, a);
  for_rows(ctx, a.dst.rows(), a.dst.cols(), [&](int64_t n) {
    kernels.convert(row_at(a.dst, n), stored_type(a.dst.dtype), row_at(a.src, n), stored_type(a.src.dtype),
                    a.dst.cols());
  });
}

void sum_squares(const RowKernels& kernels, const ExecContext& ctx, const SumSquaresArgs& a) noexcept {
  if (a.x.dtype != DType::f32) return fall_back(ctx, "sum_squares", ref::sum_squares, a);
  static_assert(kTaskElements == kSumBlock);
  const float* x = a.x.as<float>();
  for_pieces(ctx, a.x.size(), [&](int64_t begin, int64_t n) {
    unwrap(a.block_sums)[begin / kSumBlock] = kernels.sum_squares(x + begin, n);
  });
}

void dropout(const RowKernels& kernels, const ExecContext& ctx, const DropoutArgs& a) noexcept {
  // As in the reference, no element is dropped if p is below 2^-32.
  const auto threshold = static_cast<uint64_t>(a.dropout.p * 0x1p32);
  const DType t = a.out.dtype;
  const bool has = is_activation(t) && (a.x.dtype == t || all_f32(a.x));
  if (!has || threshold == 0) return fall_back(ctx, "dropout", ref::dropout, a);
  const int64_t cols = a.out.cols();
  const uint64_t key = key_of(a.dropout);
  for_rows(ctx, a.out.rows(), cols, [&](int64_t n) {
    const DropoutSpan span = {.first = static_cast<uint64_t>((a.dropout.first_row + n) * cols),
                              .key = key,
                              .last_dropped = static_cast<uint32_t>(threshold - 1),
                              .scale = static_cast<float>(1 / (1 - a.dropout.p))};
    kernels.dropout(row_at(a.out, n), stored_type(t), row_at(a.x, n), stored_type(a.x.dtype), cols, span);
  });
}

}  // namespace gpt::drivers
