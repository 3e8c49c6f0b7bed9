#pragma once

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

// Reference ops for quantized matrices, whose packed form is plain rows of blocks: LinearArgs with a
// quantized `packed`, and PackMatrixArgs.
void quantized_linear_forward(const ExecContext& ctx, const LinearArgs& a);
// LinearArgs with quantized rows in `w`.
void quantized_rows_forward(const ExecContext& ctx, const LinearArgs& a);
void quantized_pack_matrix(const ExecContext& ctx, const PackMatrixArgs& a);

// Returns the scratch memory of both products, for the quantized activations.
ScratchNeed quantized_scratch(int64_t rows, int64_t in);

}  // namespace gpt::ref
