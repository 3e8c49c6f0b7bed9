#include "kernels/cpu/drivers/attention.h"
#include "kernels/kernel_table.h"

namespace gpt {

#ifdef GPT_SIMD_AVX512
void overlay_avx512(KernelTable& table) {
  table.attention_forward = attention_forward<Isa::avx512>;
  table.attention_backward = attention_backward<Isa::avx512>;
}
#else
void overlay_avx2(KernelTable& table) {
  table.attention_forward = attention_forward<Isa::avx2>;
  table.attention_backward = attention_backward<Isa::avx2>;
}
#endif

}  // namespace gpt
