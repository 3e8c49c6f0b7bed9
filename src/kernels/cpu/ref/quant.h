#pragma once

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

// Reference implementations of the ops for quantized matrices. Packed matrices consist of plain quantized
// rows. quantized_linear_forward requires that `packed` is quantized.
void quantized_linear_forward(const ExecContext& ctx, const LinearArgs& a);
// Reference implementation of linear_forward with quantized rows in `w`.
void quantized_rows_forward(const ExecContext& ctx, const LinearArgs& a);
void quantized_pack_matrix(const ExecContext& ctx, const PackMatrixArgs& a);

// Returns the scratch memory of both products, which holds the quantized activations.
ScratchNeed quantized_scratch(int64_t rows, int64_t in);

}  // namespace gpt::ref
