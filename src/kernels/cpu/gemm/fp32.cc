// Kernels for matrix products in fp32 (k_pack 1). Operands are fp32 values, or bf16 and fp16 values that are
// stored as fp32 words. Compiled once for each instruction set, with GPT_SIMD_AVX2 or GPT_SIMD_AVX512 (see
// simd/README.md).

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/cpu/gemm/pack_panels.h"
#include "kernels/cpu/gemm/unpacked_kernel.h"

namespace gpt::gemm {
namespace {

using namespace GPT_SIMD_NAMESPACE;  // NOLINT(google-build-using-namespace): used by the whole file

struct Fma {
  GPT_INLINE Vec multiply_add(Vec acc, IVec x, IVec w) { return fma(as_floats(x), as_floats(w), acc); }
};

// Calls fn(words) with the word type of a pack format.
template <class F>
GPT_INLINE void for_format(PackFormat format, F fn) {
  switch (format) {
    case PackFormat::f32_of_bf16:
      return fn(Fp32Words<ToBf16>{});
    case PackFormat::f32_of_f16:
      return fn(Fp32Words<ToF16>{});
    default:
      return fn(Fp32Words<Exact>{});
  }
}

void pack_panel(PackFormat format, const PackPanelArgs& p) {
  for_format(format, [&]<class Words>(Words) { pack_panel_as<Words>(p); });
}

void pack_rows(PackFormat format, const PackRowsArgs& p) {
  for_format(format, [&]<class Words>(Words) { pack_rows_as<Words>(p); });
}

// Runs a micro-kernel for few rows and a panel of 16-bit elements. With few rows, widening the elements in
// registers is faster than widening them in memory.
template <class Half>
void widening_kernel(const MicroKernelArgs& t) {
  pick_micro_kernel<Fma, Half, kFewRows>(t.rows, (t.cols + kLanes - 1) / kLanes)(t);
}

void micro_kernel(const MicroKernelArgs& t) {
  if (t.b_type == DType::bf16) {
    widening_kernel<Bf16>(t);
  } else if (t.b_type == DType::f16) {
    widening_kernel<F16>(t);
  } else {
    run_micro_kernel<Fma>(t);
  }
}

void unpacked_kernel(const MicroKernelArgs& t) {
  for_type(t.b_type, [&]<class T>(T*) {
    t.b_k_contiguous ? unpacked_k_contiguous<Fma, T>(t) : unpacked_n_contiguous<Fma, T>(t);
  });
}

constexpr Kernels kKernels = {.mr = kMr,
                              .nr = kNr,
                              .k_pack = 1,
                              .pack_panel = pack_panel,
                              .pack_rows = pack_rows,
                              .micro_kernel = micro_kernel,
                              .convert = convert,
                              .dequantize = dequantize,
                              .unpacked_kernel = unpacked_kernel};

}  // namespace

#if defined(GPT_SIMD_AVX512)
Kernels fp32_kernels_avx512() {
  return kKernels;
}
#else
Kernels fp32_kernels_avx2() {
  return kKernels;
}
#endif

}  // namespace gpt::gemm
