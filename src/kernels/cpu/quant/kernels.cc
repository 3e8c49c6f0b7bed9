// Compiled once for each instruction set, with GPT_SIMD_AVX2 or GPT_SIMD_AVX512 (see simd/README.md), and
// included by kernels.bf16.cc.

#include "kernels/cpu/quant/block_panels.h"

namespace gpt::quant {

QuantKernel
#if defined(GPT_SIMD_BF16)
quant_kernel_avx512bf16()
#elif defined(GPT_SIMD_AVX512)
quant_kernel_avx512()
#else
quant_kernel_avx2()
#endif
{
  return {.act_block_bytes = kActBlock,
          .quantize = quantize,
          .multiply_panel = multiply_panel,
          .store = store_row,
          .quantize_rows = quantize_rows,
          .multiply_rows = multiply_rows,
          .quantize_for_panels = quantize_for_panels,
          .expand_panel = expand_panel,
          .multiply_expanded = multiply_expanded};
}

}  // namespace gpt::quant
