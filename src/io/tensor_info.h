#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace gpt {

// A tensor in a file that somebody else keeps open. `bytes` is row-major and little-endian and exactly
// as long as shape and dtype say; rows of a block format are rows of whole blocks. It may start at any
// address: files made elsewhere need not align their tensors. Use it in place only if is_aligned; else copy
// it first.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

inline bool is_aligned(const TensorInfo& tensor) {
  const size_t alignment = is_quantized(tensor.dtype) ? 2 : dtype_size(tensor.dtype);  // blocks: their scales
  return reinterpret_cast<uintptr_t>(tensor.bytes.data()) % alignment == 0;
}

}  // namespace gpt
