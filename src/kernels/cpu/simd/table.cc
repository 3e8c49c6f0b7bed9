#include "kernels/cpu/simd/row_sets.h"

namespace gpt {
namespace GPT_SIMD_NAMESPACE {
namespace {

RowKernels all_kernels() noexcept {
  RowKernels k{};
  set_activation(k);
  set_dropout(k);
  set_elementwise(k);
  set_loss(k);
  set_norm(k);
  set_rope(k);
  return k;
}

}  // namespace
}  // namespace GPT_SIMD_NAMESPACE

#ifdef GPT_SIMD_AVX512
const RowKernels& avx512_row_kernels() noexcept {
#else
const RowKernels& avx2_row_kernels() noexcept {
#endif
  static const RowKernels kernels = GPT_SIMD_NAMESPACE::all_kernels();
  return kernels;
}

}  // namespace gpt
