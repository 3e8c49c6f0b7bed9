#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"

namespace gpt {

class Device;
using Shape = std::vector<int64_t>;

// The number of elements; throws Error naming `what` when a dimension is negative or the product
// overflows int64.
int64_t checked_size(std::span<const int64_t> shape, const std::string& what);
std::string shape_string(std::span<const int64_t> shape);  // "[2,3]"

// A view of elements that something else owns: up to 4 dimensions, row-major, the last one dense.
// Seen as a matrix it has `rows()` rows (all dimensions but the last, collapsed) of `cols()` elements,
// `ld` elements apart; ld > cols() means that it is a column slice of a wider matrix.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device* device = nullptr;  // whose memory that is; null: host memory
  int rank = 0;
  int64_t shape[4] = {0, 0, 0, 0};
  int64_t ld = 0;
  // Matrices of weights as a file may have them: rows() x cols() all the same, but stored column after
  // column, `ld` elements apart. Only products and packing read them (kernels/ops.h); row() is not for them.
  bool transposed = false;

  explicit operator bool() const { return data != nullptr; }

  int64_t cols() const { return rank == 0 ? 1 : shape[rank - 1]; }
  int64_t rows() const {
    int64_t n = 1;
    for (int i = 0; i + 1 < rank; ++i)
      n *= shape[i];
    return n;
  }
  int64_t size() const { return rows() * cols(); }
  bool dense() const { return ld == cols() || rows() <= 1; }
  std::span<const int64_t> dims() const { return {shape, static_cast<size_t>(rank)}; }

  // The elements as T; T must be what dtype says.
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  template <class T>
  T* row(int64_t r) const {
    return static_cast<T*>(data) + r * ld;
  }

  // Element (r,c) of a matrix, counted from data.
  int64_t offset(int64_t r, int64_t c) const { return transposed ? c * ld + r : r * ld + c; }

  // Columns [from, from + n) of every row, as a matrix [rows, n].
  TensorView slice_cols(int64_t from, int64_t n) const;
  // Rows [from, from + n), as a matrix [n, cols].
  TensorView slice_rows(int64_t from, int64_t n) const;
  // Elements [from, from + n) of a dense view, as [n].
  TensorView slice_flat(int64_t from, int64_t n) const;
};

// Returns a dense view of memory of the host, or of a device.
TensorView make_view(void* data, DType dtype, std::initializer_list<int64_t> shape, Device* device = nullptr);
TensorView make_view(void* data, DType dtype, std::span<const int64_t> shape, Device* device = nullptr);
template <class T>
TensorView make_view(T* data, std::initializer_list<int64_t> shape) {
  return make_view(const_cast<std::remove_const_t<T>*>(data), dtype_of<std::remove_const_t<T>>(), shape);
}

}  // namespace gpt
