#include <cstring>

#include "kernels/cpu/drivers/drivers.h"

namespace gpt::drivers {

void scatter_rows(const RowKernels& kernels, const ExecContext& ctx, const ScatterRowsArgs& a) noexcept {
  const bool quantized = a.dst.dtype == DType::i8;
  const bool has = is_activation(a.src.dtype) && (quantized ? all_f32(a.scale) : is_activation(a.dst.dtype));
  if (!has) return fall_back(ctx, "scatter_rows", ref::scatter_rows, a);
  const int64_t cols = a.src.cols();
  if (cols == 0) return;
  const Stored from = stored_type(a.src.dtype);
  const auto bytes = static_cast<size_t>(cols) * dtype_size(a.src.dtype);
  for_rows(ctx, a.src.rows(), cols, [&](int64_t n) {
    if (quantized) {
      const int64_t groups = a.scale.cols(), width = cols / groups;
      for (int64_t g = 0; g < groups; ++g) {
        a.scale.row<float>(unwrap(a.rows)[n])[g] =
            kernels.quantize(a.dst.row<int8_t>(unwrap(a.rows)[n]) + g * width,
                             row_at(a.src.slice_cols(g * width, width), n), from, width);
      }
    } else if (a.dst.dtype == a.src.dtype) {  // the C library's memcpy is the fastest way to copy
      std::memcpy(row_at(a.dst, unwrap(a.rows)[n]), row_at(a.src, n), bytes);
    } else {
      kernels.convert(row_at(a.dst, unwrap(a.rows)[n]), stored_type(a.dst.dtype), row_at(a.src, n), from,
                      cols);
    }
  });
}

}  // namespace gpt::drivers
