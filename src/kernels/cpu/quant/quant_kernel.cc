// Compiled once per instruction set, with GPT_SIMD_AVX2 or GPT_SIMD_AVX512 (see simd/README.md).

#include "kernels/cpu/quant/quant_kernel.h"
#include "kernels/cpu/quant/quant_vec.h"
#include "kernels/cpu/quant/row_vec.h"
// The vectors come first.
#include "kernels/cpu/quant/quant_tile.inc"
#include "kernels/cpu/quant/row_product.inc"
#include "kernels/cpu/quant/row_tile.inc"

namespace gpt::quant {

#if defined(GPT_SIMD_AVX512)
QuantKernel quant_kernel_avx512() {
  return {kActBlock,         quantize, strip, store_row, quantize_rows, multiply_rows, quantize_turned_rows,
          multiply_row_tiles};
}
#else
QuantKernel quant_kernel_avx2() {
  return {kActBlock,         quantize, strip, store_row, quantize_rows, multiply_rows, quantize_turned_rows,
          multiply_row_tiles};
}
#endif

}  // namespace gpt::quant
