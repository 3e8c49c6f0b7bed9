#pragma once

#include <cstring>
#include <span>
#include <type_traits>

#include "base/error.h"
#include "kernels/quant.h"
#include "tensor/tensor.h"

namespace gpt::quant {

// A row of a source part that is packed into a matrix.
struct SourceRow {
  const std::byte* data;
  DType dtype;       // a floating-point dtype, or the quantized dtype of the packed matrix
  int64_t step = 1;  // stride between elements

  // Returns quantization block b of the row. Quantizes the values first if they are floating-point.
  template <class Block>
  Block block(int64_t b) const {
    Block block;
    if (is_quantized(dtype)) {
      std::memcpy(&block, data + b * static_cast<int64_t>(sizeof(Block)), sizeof(Block));
      return block;
    }
    float x[kQuantBlock];
    if (dtype == DType::f32) load<float>(b, x);
    if (dtype == DType::f64) load<double>(b, x);
    if (dtype == DType::bf16) load<bf16>(b, x);
    if (dtype == DType::f16) load<f16>(b, x);
    quantize_block(x, block);
    return block;
  }

 private:
  template <class T>
  void load(int64_t b, float* x) const {
    for (int64_t j = 0; j < kQuantBlock; ++j) {
      T value;
      std::memcpy(&value, data + (b * kQuantBlock + j) * step * static_cast<int64_t>(sizeof(T)), sizeof(T));
      if constexpr (std::is_same_v<T, double>) {
        x[j] = static_cast<float>(value);
      } else {
        x[j] = gpt::to_float(value);
      }
    }
  }
};

// Returns row `r` of the concatenated parts. The row stride `ld` of a part is in elements, also for quantized
// rows.
inline SourceRow source_row(std::span<const TensorView> parts, int64_t r) {
  for (const TensorView& part : parts) {
    if (r >= part.rows()) {
      r -= part.rows();
      continue;
    }
    const auto* data = static_cast<const std::byte*>(part.data);
    if (is_quantized(part.dtype)) return {data + r * row_bytes(part.dtype, part.ld), part.dtype};
    return {data + part.offset(r, 0) * static_cast<int64_t>(dtype_size(part.dtype)), part.dtype,
            part.offset(0, 1)};
  }
  __builtin_unreachable();  // r is less than the total number of rows
}

}  // namespace gpt::quant
