#pragma once

#include "kernels/kernel_table.h"

namespace gpt::quant {

// Products with quantised weights, as kernels/quant.h defines them, by the kernels of the context's
// instruction set (not `ref`, whose packed matrices are plain rows of blocks).

// LinearArgs with a quantised `packed`; scratch as scratch_need() says.
void linear_forward(const ExecContext& ctx, const LinearArgs& args);

// LinearArgs whose `w` is rows of blocks, read where they are.
void linear_forward_rows(const ExecContext& ctx, const LinearArgs& args);

// The parts are fp32, bf16 or fp16 and become blocks here, or are rows of blocks of the type wanted.
void pack_matrix(const ExecContext& ctx, const PackMatrixArgs& args);

// 0 where there is no such matrix: `in` must be a multiple of 32.
int64_t packed_bytes(DType dtype, int64_t out, int64_t in);

// Of either product with up to so many rows, for any instruction set.
ScratchNeed scratch_need(int64_t rows, int64_t in);

}  // namespace gpt::quant
