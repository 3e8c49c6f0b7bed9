#pragma once

#include "kernels/cpu/gemm/gemm.h"

namespace gpt::gemm {

// Whether this build has oneDNN and may use it for `isa`: oneDNN picks its instruction set once for the
// whole process, so it serves only AVX-512.
bool onednn_serves(Isa isa);

// The product by oneDNN, one call on one thread per tile, with the scratch that split_k() needs. oneDNN
// allocates its packing buffers inside; a tile that it refuses is computed by plain loops. No bias.
void onednn_multiply(const ExecContext& ctx, const Product& p);

}  // namespace gpt::gemm
