#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "tensor/tensor.h"

namespace gpt {

// An array in device memory. Only ops can access its elements (kernels/unwrap.h). A span with a null pointer
// represents an absent array.
template <class T>
class DeviceSpan {
 public:
  DeviceSpan() = default;
  DeviceSpan(T* data, size_t size) : data_(data), size_(size) {}
  // Converts to a span of const elements, like std::span.
  template <class U, class = std::enable_if_t<std::is_convertible_v<U (*)[], T (*)[]>>>
  DeviceSpan(const DeviceSpan<U>& other)  // NOLINT(google-explicit-constructor)
      : data_(other.data_), size_(other.size_) {}

  explicit operator bool() const { return data_ != nullptr; }
  size_t size() const { return size_; }
  DeviceSpan subspan(size_t from, size_t n) const { return {data_ + from, n}; }

 private:
  template <class>
  friend class DeviceSpan;
  friend struct Unwrap;

  T* data_ = nullptr;
  size_t size_ = 0;
};

// Returns the elements of a dense view as a one-dimensional span.
template <class T>
DeviceSpan<T> device_span(const TensorView& view) {
  GPT_ASSERT(view.dtype == dtype_of<std::remove_const_t<T>>() && view.dense());
  return {view.as<T>(), static_cast<size_t>(view.size())};
}

// A host array. Ops read the array before they return, so the caller may free it after the call.
template <class T>
using HostSpan = std::span<const T>;

}  // namespace gpt
