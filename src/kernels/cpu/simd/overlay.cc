#include "kernels/kernel_table.h"

namespace gpt {

#ifdef GPT_SIMD_AVX512
void overlay_avx512(KernelTable&) {}
#else
void overlay_avx2(KernelTable&) {}
#endif

}  // namespace gpt
