// For AVX512_VNNI (see simd/README.md).

#include "kernels/cpu/quant/block_rows_expanded.h"
#include "kernels/cpu/quant/packed_kernel.h"

namespace gpt::quant {

QuantKernel quant_kernel_avx512bf16() {
  return {kActBlock,     quantize,      multiply_panel,      store_row,
          quantize_rows, multiply_rows, quantize_transposed, multiply_expanded};
}

}  // namespace gpt::quant
