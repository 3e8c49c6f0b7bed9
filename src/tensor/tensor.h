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

// Returns the number of elements of a shape. Throws Error naming `what` if a dimension is negative or the
// product overflows int64.
int64_t checked_size(std::span<const int64_t> shape, const std::string& what);
std::string shape_string(std::span<const int64_t> shape);  // for example "[2,3]"

// A non-owning view of a tensor with up to 4 dimensions in row-major order. The last dimension is dense. As a
// matrix, the view has `rows()` rows of `cols()` elements, and the row stride is `ld`. All dimensions except
// the last are combined into rows. If ld > cols(), the view is a column slice of a wider matrix.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device* device = nullptr;  // owner of the memory; null for host memory
  int rank = 0;
  int64_t shape[4] = {0, 0, 0, 0};
  int64_t ld = 0;
  // True for a weight matrix that is stored in column-major order. The logical shape is still rows() x
  // cols(), and `ld` is the column stride. Only matmuls and weight packing accept such views (kernels/ops.h).
  // row() does not support them.
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

  // Returns a pointer to the elements. T must match the dtype.
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  template <class T>
  T* row(int64_t r) const {
    return static_cast<T*>(data) + r * ld;
  }

  // Returns the offset of element (r,c) of a matrix from `data`, in elements.
  int64_t offset(int64_t r, int64_t c) const { return transposed ? c * ld + r : r * ld + c; }

  // Returns n columns of every row, starting at column `from`, as a matrix [rows, n].
  TensorView slice_cols(int64_t from, int64_t n) const;
  // Returns n rows, starting at row `from`, as a matrix [n, cols].
  TensorView slice_rows(int64_t from, int64_t n) const;
  // Returns n elements of a dense view, starting at element `from`, as a vector [n].
  TensorView slice_flat(int64_t from, int64_t n) const;
};

// Returns a dense view of host memory, or of device memory if `device` is set.
TensorView make_view(void* data, DType dtype, std::initializer_list<int64_t> shape, Device* device = nullptr);
TensorView make_view(void* data, DType dtype, std::span<const int64_t> shape, Device* device = nullptr);
template <class T>
TensorView make_view(T* data, std::initializer_list<int64_t> shape) {
  return make_view(const_cast<std::remove_const_t<T>*>(data), dtype_of<std::remove_const_t<T>>(), shape);
}

}  // namespace gpt
