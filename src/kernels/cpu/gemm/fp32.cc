// Compiled once per instruction set, with GPT_SIMD_AVX2 or GPT_SIMD_AVX512 (see simd/README.md).

#include "kernels/cpu/gemm/kernels.h"
#include "kernels/cpu/gemm/plain_tile.h"
#include "kernels/cpu/gemm/strips.h"
#include "kernels/cpu/gemm/tile.h"

namespace gpt::gemm {
namespace {

using namespace GPT_SIMD_NAMESPACE;  // NOLINT(google-build-using-namespace): the layer this unit is written
                                     // on

struct MultiplyAdd {
  GPT_INLINE Vec add_product(Vec sum, IVec x, IVec w) { return fma(as_floats(x), as_floats(w), sum); }
};

// fn(units) with the units of a form.
template <class F>
GPT_INLINE void for_form(Form form, F fn) {
  switch (form) {
    case Form::f32_of_bf16:
      return fn(Fp32Units<ToBf16>{});
    case Form::f32_of_f16:
      return fn(Fp32Units<ToF16>{});
    default:
      return fn(Fp32Units<Exact>{});
  }
}

void pack(Form form, const PackArgs& p) {
  for_form(form, [&]<class Units>(Units) { pack_units<Units>(p); });
}

void unit_rows(Form form, const UnitRowsArgs& p) {
  for_form(form, [&]<class Units>(Units) { make_unit_rows<Units>(p); });
}

void tile(const TileArgs& t) {
  const int64_t vecs = (t.cols + kLanes - 1) / kLanes;
  if (t.b_type == DType::bf16) {
    pick_thin_tile<MultiplyAdd, Bf16>(t.rows, vecs)(t);
  } else if (t.b_type == DType::f16) {
    pick_thin_tile<MultiplyAdd, F16>(t.rows, vecs)(t);
  } else {
    compute_tile<MultiplyAdd>(t);
  }
}

void plain_tile(const TileArgs& t) {
  for_type(t.b_type, [&]<class T>(T*) {
    t.b_k_contiguous ? multiply_rows_of_b<MultiplyAdd, T>(t) : multiply_columns_of_b<MultiplyAdd, T>(t);
  });
}

void convert(const ConvertArgs& p) {
  convert_any(p);
}

constexpr Kernels kKernels = {.mr = kRows,
                              .nr = kWidth,
                              .per_unit = 1,
                              .pack = pack,
                              .unit_rows = unit_rows,
                              .tile = tile,
                              .convert = convert,
                              .plain_tile = plain_tile};

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
