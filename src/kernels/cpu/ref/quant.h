#pragma once

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {

// The ops of quantised matrices, packed as plain rows of blocks: LinearArgs with such a `packed`, and
// PackMatrixArgs for it.
void quantized_linear_forward(const ExecContext& ctx, const LinearArgs& a);
// LinearArgs whose `w` is rows of blocks.
void quantized_rows_forward(const ExecContext& ctx, const LinearArgs& a);
void quantized_pack_matrix(const ExecContext& ctx, const PackMatrixArgs& a);

// Of both products: the activations in blocks.
ScratchNeed quantized_scratch(int64_t rows, int64_t in);

}  // namespace gpt::ref
