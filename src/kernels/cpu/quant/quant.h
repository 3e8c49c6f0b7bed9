#pragma once

#include "kernels/kernel_table.h"

namespace gpt::quant {

// Products with quantized weights, as defined in kernels/quant.h. The functions below use the kernels of the
// context's instruction set. The scalar reference (`ref`) has its own implementation, whose packed matrices
// are plain quantized rows.

// Computes linear_forward with a quantized `packed`. Requires the scratch memory that scratch_need() returns.
void linear_forward(const ExecContext& ctx, const LinearArgs& args);

// Computes linear_forward with quantized rows in `w`, which are read in place. Requires the scratch memory
// that scratch_need() returns.
void linear_forward_rows(const ExecContext& ctx, const LinearArgs& args);

// Packs a quantized matrix. Parts in fp32, bf16 or fp16 are quantized first. Parts that are already quantized
// must have the dtype of the packed matrix.
void pack_matrix(const ExecContext& ctx, const PackMatrixArgs& args);

// Returns the size of a packed matrix in bytes. Returns 0 if `in` is not a multiple of 32, which is not
// supported.
int64_t packed_bytes(DType dtype, int64_t out, int64_t in);

// Returns the scratch memory of either product with up to `rows` rows, for any instruction set.
ScratchNeed scratch_need(int64_t rows, int64_t in);

}  // namespace gpt::quant
