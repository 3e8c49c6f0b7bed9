#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace gpt {

// A matrix (or a vector, as [rows,1]) in a file, possibly unaligned, of any floating-point dtype.
struct RawMatrix {
  std::span<const std::byte> bytes;  // rows * cols elements
  DType dtype;
  int64_t rows, cols;       // as stored
  bool transposed = false;  // the logical matrix is [cols,rows]
  int64_t first_row = 0;    // first row to convert, in the logical matrix
};

bool is_float(DType dtype);

// Converts the logical rows [first_row, first_row + to.rows()) to a dense view of any floating-point dtype.
void convert_matrix(const RawMatrix& from, const TensorView& to);

// Concatenates the rows of the parts, transposes the result if `transposed`, converts it to dtype `as`, and
// emits it in chunks. parts: vectors or matrices of floating-point dtypes.
void emit_matrix(std::vector<TensorView> parts, bool transposed, DType as,
                 const std::function<void(std::span<const std::byte>)>& emit);

}  // namespace gpt
