// For AVX512_VNNI (see simd/README.md).

#include "kernels/cpu/quant/quant_kernel.h"
#include "kernels/cpu/quant/quant_vec.h"
// The vectors come first.
#include "kernels/cpu/quant/quant_tile.inc"

namespace gpt::quant {

QuantKernel quant_kernel_avx512bf16() {
  return {kActBlock, quantize, strip, store_row};
}

}  // namespace gpt::quant
