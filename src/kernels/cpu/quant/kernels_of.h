#pragma once

#include "kernels/cpu/drivers/drivers.h"
#include "kernels/cpu/quant/quant_kernel.h"

namespace gpt::quant {

struct Kernels {
  QuantKernel product;
  const RowKernels* rows;
};

inline Kernels kernels_of([[maybe_unused]] Isa isa) {
#ifdef GPT_HAVE_SIMD
  if (isa == Isa::avx2) return {quant_kernel_avx2(), &avx2_row_kernels()};
  if (isa == Isa::avx512) return {quant_kernel_avx512(), &avx512_row_kernels()};
  return {quant_kernel_avx512bf16(), &avx512_row_kernels()};
#else
  return {};  // never called: without SIMD the table holds the reference
#endif
}

inline uint8_t* element(const TensorView& v, int64_t row, int64_t col) {
  return static_cast<uint8_t*>(v.data) + (row * v.ld + col) * static_cast<int64_t>(dtype_size(v.dtype));
}

}  // namespace gpt::quant
