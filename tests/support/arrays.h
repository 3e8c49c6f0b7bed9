#pragma once

// Arrays that tests pass to ops.

#include <type_traits>
#include <vector>

#include "tensor/device.h"

namespace gpt::test {

// An array that the test fills and that ops read as an array in device memory.
template <class T>
struct CaseArray {
  T* data;
  size_t size;

  T& operator[](int64_t i) const { return data[i]; }
  operator DeviceSpan<T>() const { return {data, size}; }
  operator DeviceSpan<const T>() const requires(!std::is_const_v<T>) { return {data, size}; }
};
template <class T>
CaseArray<T> array_of(std::vector<T>& values) {
  return {values.data(), values.size()};
}
template <class T>
CaseArray<const T> array_of(const std::vector<T>& values) {
  return {values.data(), values.size()};
}
template <class T>
CaseArray<T> array_of(T& value) {
  return {&value, 1};
}

// Returns a host device for ops that are expected to succeed.
inline HostDevice& host() {
  static HostDevice device;
  return device;
}

}  // namespace gpt::test
