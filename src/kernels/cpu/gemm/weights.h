#pragma once

#include "kernels/kernel_table.h"

namespace gpt::gemm {

// dw += dy^T x and dbias += column sums of dy, as ops.h says; dw and dbias are fp32.
void multiply_columns(const ExecContext& ctx, Isa isa, const LinearBackwardWeightArgs& args);
ScratchNeed column_scratch(int64_t rows, int64_t out, int64_t in);

}  // namespace gpt::gemm
