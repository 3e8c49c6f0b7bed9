#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/ref/ref.h"
#include "kernels/quant.h"

namespace gpt::ref {
namespace {

// Quantizes one group of a row to int8 and returns its scale. Computes in float for any dtype of src, so that
// all backends round in the same way. If the group contains a NaN or an infinity, the scale is NaN and the
// values are zero, so that all products with the group are NaN.
float store_group(const ScatterRowsArgs& a, int64_t n, int64_t begin, int64_t end) {
  float top = 0;
  for (int64_t c = begin; c < end; ++c) {
    const float x = std::abs(get<float>(a.src, n, c));
    top = std::isfinite(x) && !std::isnan(top) ? std::max(x, top) : std::nanf("");
  }
  const float scale = top / 127;
  int8_t* dst = a.dst.row<int8_t>(unwrap(a.rows)[n]);
  for (int64_t c = begin; c < end; ++c) {
    // A subnormal scale may be so inaccurate that the quotient is out of range, so the quotient is clamped.
    const float whole = scale > 0 ? std::nearbyint(get<float>(a.src, n, c) / scale) : 0;
    dst[c] = static_cast<int8_t>(std::clamp(whole, -127.0f, 127.0f));
  }
  return scale;
}

void store_blocks(const ScatterRowsArgs& a, int64_t n) {
  auto* bytes = static_cast<std::byte*>(a.dst.slice_rows(unwrap(a.rows)[n], 1).data);
  for (int64_t c = 0; c < a.src.cols(); c += kQuantBlock, bytes += sizeof(BlockQ4)) {
    float x[kQuantBlock];
    for (int64_t j = 0; j < kQuantBlock; ++j)
      x[j] = get<float>(a.src, n, c + j);
    BlockQ4 block;
    quantize_block(x, block);
    std::memcpy(bytes, &block, sizeof block);  // rows may start at unaligned addresses
  }
}

}  // namespace

void scatter_rows(const ExecContext& ctx, const ScatterRowsArgs& a) noexcept {
  const int64_t cols = a.src.cols();
  for_rows(ctx, a.src.rows(), [&](int64_t n) {
    if (a.dst.dtype == DType::i8) {
      const int64_t group = cols / a.scale.cols();
      for (int64_t g = 0; g < a.scale.cols(); ++g)
        set(a.scale, unwrap(a.rows)[n], g, store_group(a, n, g * group, (g + 1) * group));
    } else if (a.dst.dtype == DType::q4_0) {
      store_blocks(a, n);
    } else {
      for (int64_t c = 0; c < cols; ++c)
        set(a.dst, unwrap(a.rows)[n], c, get(a.src, n, c));
    }
  });
}

void compact_rows(const ExecContext&, const CompactRowsArgs& a) noexcept {
  const size_t bytes = static_cast<size_t>(a.x.cols()) * dtype_size(a.x.dtype);
  for (int64_t i = 0; i < static_cast<int64_t>(a.rows.size()); ++i) {
    if (unwrap(a.rows)[i] != i)
      std::memcpy(a.x.slice_rows(i, 1).data, a.x.slice_rows(unwrap(a.rows)[i], 1).data, bytes);
  }
}

}  // namespace gpt::ref
