#pragma once

#include "kernels/cpu/simd/row_kernels.h"
#include "kernels/cpu/simd/vec.h"

// Each source file of row kernels defines one of these functions, which adds its kernels to the set of its
// instruction set.
namespace gpt::GPT_SIMD_NAMESPACE {

void set_activation(RowKernels& k) noexcept;
void set_dropout(RowKernels& k) noexcept;
void set_elementwise(RowKernels& k) noexcept;
void set_loss(RowKernels& k) noexcept;
void set_norm(RowKernels& k) noexcept;
void set_rope(RowKernels& k) noexcept;

}  // namespace gpt::GPT_SIMD_NAMESPACE
