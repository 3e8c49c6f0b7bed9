#pragma once

// Gives CPU ops access to the data of device arrays. Only files in kernels may include this header
// (scripts/check-includes).

#include <span>

#include "kernels/ops.h"

namespace gpt {

struct Unwrap {
  template <class T>
  static T* data(DeviceSpan<T> s) {
    return s.data_;
  }
};

// Returns a pointer to the first element, or null if the array is absent.
template <class T>
T* unwrap(DeviceSpan<T> s) {
  return Unwrap::data(s);
}
template <class T>
std::span<T> unwrap_span(DeviceSpan<T> s) {
  return {Unwrap::data(s), s.size()};
}

}  // namespace gpt
