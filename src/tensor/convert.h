#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace gpt {

// A matrix (or a vector, as [rows,1]) somewhere in a file: possibly unaligned, of any floating type.
struct RawMatrix {
  std::span<const std::byte> bytes;  // rows * cols elements
  DType dtype;
  int64_t rows, cols;       // as stored
  bool transposed = false;  // the logical matrix is [cols,rows]
  int64_t first_row = 0;    // of the logical matrix: where the part that is wanted begins
};

bool is_float(DType dtype);

// Copies the logical rows [first_row, first_row + to.rows()) to a dense view of any floating type,
// converting.
void convert_matrix(const RawMatrix& from, const TensorView& to);

// Emits the rows of the parts, one below the other, or the transpose of that, chunk by chunk, as another
// floating type. Parts: vectors or matrices of floating types.
void emit_matrix(std::vector<TensorView> parts, bool transposed, DType as,
                 const std::function<void(std::span<const std::byte>)>& emit);

}  // namespace gpt
