// Kernels for matrix products in bf16 (k_pack 2) with AVX512_BF16. vdpbf16ps multiplies two words, that is
// two pairs of bf16 values, and adds both products to an fp32 accumulator.

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/cpu/gemm/micro_kernel.h"
#include "kernels/cpu/gemm/pack_panels.h"
#include "kernels/cpu/simd/bf16_pairs.h"

namespace gpt::gemm {
namespace {

using namespace GPT_SIMD_NAMESPACE;  // NOLINT(google-build-using-namespace): used by the whole file

struct Bf16Pairs {
  static constexpr int64_t kPack = 2;
  GPT_INLINE IVec from_row(const Bf16* p) { return _mm512_loadu_si512(p); }
  GPT_INLINE IVec from_row(const Bf16* p, int64_t n) {
    const uint32_t lanes = n >= 32 ? ~uint32_t{0} : (uint32_t{1} << static_cast<uint32_t>(n)) - 1;
    return _mm512_maskz_loadu_epi16(lanes, p);
  }
  template <class T>
  GPT_INLINE IVec from_row(const T* p) {
    return narrow_two(load(p), load(p + kLanes));
  }
  template <class T>
  GPT_INLINE IVec from_row(const T* p, int64_t n) {
    return n <= kLanes ? narrow_two(load_n(p, n), zero())
                       : narrow_two(load(p), load_n(p + kLanes, n - kLanes));
  }
  GPT_INLINE IVec from_columns(const Bf16* low, const Bf16* high) {
    return interleave_bf16(load_halves(low), high ? load_halves(high) : _mm256_setzero_si256());
  }
  GPT_INLINE IVec from_columns(const Bf16* low, const Bf16* high, int64_t n) {
    return interleave_bf16(load_halves(low, first_lanes(n)),
                           high ? load_halves(high, first_lanes(n)) : _mm256_setzero_si256());
  }
  template <class T>
  GPT_INLINE IVec from_columns(const T* low, const T* high) {
    return interleave(load(low), high ? load(high) : zero());
  }
  template <class T>
  GPT_INLINE IVec from_columns(const T* low, const T* high, int64_t n) {
    return interleave(load_n(low, n), high ? load_n(high, n) : zero());
  }

 private:
  GPT_INLINE IVec interleave_bf16(Halves low, Halves high) {
    return interleave_halves(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
  }
};

struct Bf16Dot {
  GPT_INLINE Vec multiply_add(Vec acc, IVec x, IVec w) { return dot_pairs(w, x, acc); }
};

void pack_panel(PackFormat, const PackPanelArgs& p) {
  pack_panel_as<Bf16Pairs>(p);
}

void pack_rows(PackFormat, const PackRowsArgs& p) {
  pack_rows_as<Bf16Pairs>(p);
}

void micro_kernel(const MicroKernelArgs& t) {
  run_micro_kernel<Bf16Dot>(t);
}

}  // namespace

Kernels bf16_kernels_avx512() {
  return {kMr, kNr, 2, pack_panel, pack_rows, micro_kernel, convert, dequantize};
}

}  // namespace gpt::gemm
