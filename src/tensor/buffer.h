#pragma once

#include <cstddef>

#include "tensor/tensor.h"

namespace gpt {

// Page-aligned, zeroed memory of the host or of a device; move-only. Throws Error naming `what` if memory is
// short.
class Buffer {
 public:
  Buffer() = default;
  // device: null for the host. It must outlive the buffer.
  Buffer(size_t bytes, const char* what, Device* device = nullptr);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Returns a view of the elements that are stored from byte `offset` on.
  TensorView view(int64_t offset, DType dtype, std::span<const int64_t> shape) const;
  // Returns a view that starts at the first byte. Reallocates if the buffer is too small; then its content is
  // lost.
  TensorView grow(DType dtype, std::span<const int64_t> shape, const char* what, Device* device);
  // Returns the whole pages in a range to the system; they read as zero when used again. Has no effect on
  // device memory.
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
