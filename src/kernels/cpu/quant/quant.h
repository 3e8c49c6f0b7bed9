#pragma once

#include "kernels/kernel_table.h"

namespace gpt::quant {

// Products with quantized weights, defined in kernels/quant.h, with the kernels of the context's instruction
// set (except `ref`, whose packed matrices are plain rows of blocks).

// LinearArgs with a quantized `packed`. Needs scratch_need() of scratch memory.
void linear_forward(const ExecContext& ctx, const LinearArgs& args);

// LinearArgs with quantized rows in `w`, which are read in place.
void linear_forward_rows(const ExecContext& ctx, const LinearArgs& args);

// Packs a quantized matrix. Parts are fp32, bf16 or fp16 and are quantized here, or are already quantized in
// the dtype of the packed matrix.
void pack_matrix(const ExecContext& ctx, const PackMatrixArgs& args);

// Returns the bytes of a packed matrix; 0 if it is not supported, since `in` must be a multiple of 32.
int64_t packed_bytes(DType dtype, int64_t out, int64_t in);

// Returns the scratch memory of either product with up to `rows` rows, for any instruction set.
ScratchNeed scratch_need(int64_t rows, int64_t in);

}  // namespace gpt::quant
