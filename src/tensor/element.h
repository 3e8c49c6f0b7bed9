#pragma once

#include <cmath>

#include "tensor/device.h"
#include "tensor/half.h"
#include "tensor/tensor.h"

namespace gpt {

// Returns element (r,c) of a matrix as double. The matrix has any floating-point dtype and may be transposed.
inline double element(const TensorView& v, int64_t r, int64_t c) {
  switch (v.dtype) {
    case DType::f64:
      return static_cast<const double*>(v.data)[v.offset(r, c)];
    case DType::bf16:
      return to_float(static_cast<const bf16*>(v.data)[v.offset(r, c)]);
    case DType::f16:
      return to_float(static_cast<const f16*>(v.data)[v.offset(r, c)]);
    default:
      return static_cast<const float*>(v.data)[v.offset(r, c)];
  }
}

}  // namespace gpt
