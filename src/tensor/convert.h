#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace gpt {

// A matrix of any floating-point dtype in a file. The address of the matrix may be unaligned. A vector is
// stored as a matrix [rows,1].
struct RawMatrix {
  std::span<const std::byte> bytes;  // rows * cols elements
  DType dtype;
  int64_t rows, cols;       // shape of the stored matrix
  bool transposed = false;  // true if the logical matrix is [cols,rows]
  int64_t first_row = 0;    // first row of the logical matrix to convert
};

bool is_float(DType dtype);

// Converts the logical rows [first_row, first_row + to.rows()) of `from` and stores them in `to`. `to` must
// be a dense view of any floating-point dtype.
void convert_matrix(const RawMatrix& from, const TensorView& to);

// Concatenates the rows of the parts, transposes the result if `transposed` is set, and converts it to dtype
// `as`. Passes the converted bytes to `emit` in chunks. The parts are vectors or matrices of floating-point
// dtypes.
void emit_matrix(std::vector<TensorView> parts, bool transposed, DType as,
                 const std::function<void(std::span<const std::byte>)>& emit);

}  // namespace gpt
