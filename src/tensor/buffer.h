#pragma once

#include <cstddef>

namespace gpt {

// Page-aligned, zeroed memory; move-only. Throws Error naming `what` when the system refuses.
class Buffer {
 public:
  Buffer() = default;
  Buffer(size_t bytes, const char* what);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace gpt
