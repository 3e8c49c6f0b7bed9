#pragma once

#include <cstddef>

#include "tensor/tensor.h"

namespace gpt {

// Page-aligned, zero-initialized memory on the host or on a device. Move-only. The constructor throws Error
// naming `what` if there is not enough memory.
class Buffer {
 public:
  Buffer() = default;
  // device: the device that owns the memory, or null for the host. The device must outlive the buffer.
  Buffer(size_t bytes, const char* what, Device* device = nullptr);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Returns a view of the elements that start at byte `offset`.
  TensorView view(int64_t offset, DType dtype, std::span<const int64_t> shape) const;
  // Returns a view that starts at the first byte. If the buffer is too small, it is reallocated and its
  // content is lost.
  TensorView grow(DType dtype, std::span<const int64_t> shape, const char* what, Device* device);
  // Returns all complete memory pages in a range to the operating system. The pages read as zero when they
  // are used again. Has no effect on device memory.
  void drop(int64_t offset, int64_t bytes) const;
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Device* device_ = nullptr;
};

}  // namespace gpt
