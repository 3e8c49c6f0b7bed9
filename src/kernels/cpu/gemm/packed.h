#pragma once

#include "kernels/cpu/gemm/gemm.h"

namespace gpt::gemm {

// Products by the program's own packed kernel, with the scratch that packed_scratch() asks for.
// `isa` is avx2 or avx512.
void packed_multiply(const ExecContext& ctx, Isa isa, const Product& p);
ScratchNeed packed_scratch(int64_t m, int64_t n, int64_t k);

}  // namespace gpt::gemm
