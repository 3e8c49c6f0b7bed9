// Compiled once per instruction set, with GPT_SIMD_AVX2 or GPT_SIMD_AVX512 (see simd/README.md).

#include "kernels/cpu/quant/block_rows_expanded.h"
#include "kernels/cpu/quant/packed_kernel.h"

namespace gpt::quant {

#if defined(GPT_SIMD_AVX512)
QuantKernel quant_kernel_avx512() {
  return {kActBlock,     quantize,      multiply_panel,      store_row,
          quantize_rows, multiply_rows, quantize_transposed, multiply_expanded};
}
#else
QuantKernel quant_kernel_avx2() {
  return {kActBlock,     quantize,      multiply_panel,      store_row,
          quantize_rows, multiply_rows, quantize_transposed, multiply_expanded};
}
#endif

}  // namespace gpt::quant
