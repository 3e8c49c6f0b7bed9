#pragma once

#include <cstddef>

#include "tensor/tensor.h"

namespace gpt {

// Page-aligned, zeroed memory of the host or of a backend; move-only. Throws Error naming `what` when there
// is not enough.
class Buffer {
 public:
  Buffer() = default;
  Buffer(size_t bytes, const char* what, DeviceAllocator* memory = nullptr);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Numbers `offset` bytes behind the beginning.
  TensorView view(int64_t offset, DType dtype, std::span<const int64_t> shape) const;
  // Such a view from the beginning on, of new memory where there is too little: what it held is lost then.
  TensorView grow(DType dtype, std::span<const int64_t> shape, const char* what, DeviceAllocator* memory);
  // Gives the memory of whole pages in a range back; they are zero when they are used again. For memory of
  // the host; elsewhere nothing happens.
  void drop(int64_t offset, int64_t bytes) const;
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  DeviceAllocator* memory_ = nullptr;
};

}  // namespace gpt
