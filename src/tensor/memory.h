#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace gpt {

// Memory of a backend that the host does not share: ops alone use it, and MappedView. A backend that computes
// where the host's numbers are has none (null).
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;
  // Zeroed. Throws Error naming `what` when there is not enough.
  virtual std::byte* allocate(size_t bytes, const char* what) = 0;
  virtual void release(std::byte* data, size_t bytes) noexcept = 0;
  // Makes numbers of the host, such as those of a mapped file, numbers of this memory, until they are given
  // back.
  virtual std::byte* adopt(std::span<const std::byte> host) = 0;
  virtual void give_back(std::span<const std::byte> host) noexcept = 0;

  // What the host may read, and write, in place of the given range until it is closed.
  virtual std::byte* open(std::byte* data, size_t bytes) = 0;
  virtual void close(std::byte* data, size_t bytes) noexcept = 0;
};

// The bytes from the first number of a view to its last one.
size_t extent(const TensorView& view);

// Lets the host at the numbers of a view, wherever they are, as long as it lives.
class MappedView {
 public:
  explicit MappedView(const TensorView& view);
  ~MappedView();
  MappedView(const MappedView&) = delete;
  MappedView& operator=(const MappedView&) = delete;

  const TensorView& operator*() const { return host_; }
  const TensorView* operator->() const { return &host_; }

 private:
  TensorView device_, host_;
  size_t bytes_ = 0;
};

// Copies rows of equal shape and type from one view to another.
void copy_rows(const TensorView& from, const TensorView& to);

// Numbers of the host that ops read or write: where they are if ops get there, else in a copy.
template <class T>
class Staged {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Staged(DeviceAllocator* memory = nullptr) : memory_(memory) {}

  // Makes room for a copy of so many, where there will be one.
  void reserve(size_t n) {
    if (memory_ != nullptr && n * sizeof(T) > copy_.size())
      copy_ = Buffer(n * sizeof(T), "a copy for ops", memory_);
  }
  // Where ops read the numbers, as they are now.
  const T* put(std::span<const T> host) {
    if (memory_ == nullptr) return host.data();
    reserve(host.size());
    const MappedView access(bytes(host.size()));
    std::memcpy(access->data, host.data(), host.size_bytes());
    return copy_.template as<T>();
  }
  // The same where they write them too.
  T* share(std::span<T> host) { return const_cast<T*>(put(host)); }
  // The host's numbers become what ops have made of those that it shared.
  void get(std::span<T> host) const {
    if (memory_ == nullptr) return;
    const MappedView access(bytes(host.size()));
    std::memcpy(host.data(), access->data, host.size_bytes());
  }

 private:
  TensorView bytes(size_t n) const {
    const int64_t shape[] = {static_cast<int64_t>(n * sizeof(T))};
    return copy_.view(0, DType::i8, shape);
  }

  DeviceAllocator* memory_;
  Buffer copy_;
};

}  // namespace gpt
