#pragma once

#include "kernels/cpu/simd/row_kernels.h"
#include "kernels/cpu/simd/vec.h"

// Every source of row kernels enters its functions into the set of its instruction set.
namespace gpt::GPT_SIMD_NAMESPACE {

void set_activation(RowKernels& k);
void set_dropout(RowKernels& k);
void set_elementwise(RowKernels& k);
void set_loss(RowKernels& k);
void set_norm(RowKernels& k);
void set_rope(RowKernels& k);

}  // namespace gpt::GPT_SIMD_NAMESPACE
