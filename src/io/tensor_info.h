#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace gpt {

// A tensor in a file. The owner of the file keeps the file open. `bytes` is row-major and little-endian, and
// its length matches the shape and the dtype exactly. Rows of a quantized dtype consist of whole quantization
// blocks. `bytes` may start at any address because files from other tools need not align their tensors. If
// is_aligned returns false, the caller must copy the data.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

inline bool is_aligned(const TensorInfo& tensor) {
  // Quantization blocks only need the alignment of their fp16 scales.
  const size_t alignment = is_quantized(tensor.dtype) ? 2 : dtype_size(tensor.dtype);
  return reinterpret_cast<uintptr_t>(tensor.bytes.data()) % alignment == 0;
}

}  // namespace gpt
