#include "kernels/cpu/gemm/layout.h"

namespace gpt::gemm {

bool has_layout([[maybe_unused]] Isa isa, [[maybe_unused]] DType compute) {
#ifdef GPT_HAVE_SIMD
  return isa >= Isa::avx2 && (compute == DType::f32 || compute == DType::bf16 || compute == DType::f16);
#else
  return false;
#endif
}

Layout layout_of([[maybe_unused]] Isa isa, [[maybe_unused]] DType compute) {
#ifdef GPT_HAVE_SIMD
  if (isa == Isa::amx && compute == DType::bf16) return {bf16_kernels_amx(), PackFormat::bf16_pairs};
  if (isa == Isa::avx512bf16 && compute == DType::bf16)
    return {bf16_kernels_avx512(), PackFormat::bf16_pairs};
  Kernels kernels = isa >= Isa::avx512 ? fp32_kernels_avx512() : fp32_kernels_avx2();
  if (isa == Isa::amx) {
    kernels.max_kc = 256;  // a block [kc,nr] of B then stays in 48 KiB of first-level cache
    kernels.prefetch_next = true;
  }
  if (compute == DType::bf16) return {kernels, PackFormat::f32_of_bf16, DType::bf16};
  if (compute == DType::f16) return {kernels, PackFormat::f32_of_f16, DType::f16};
  return {kernels, PackFormat::f32};
#else
  return {};  // never called: without SIMD the table holds the reference
#endif
}

}  // namespace gpt::gemm
