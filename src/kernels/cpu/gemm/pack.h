#pragma once

#include "kernels/kernel_table.h"

namespace gpt::gemm {

// Fills a packed matrix that multiply_rows() understands, whose memory has packed_size() bytes.
void pack_weights(const ExecContext& ctx, Isa isa, const PackMatrixArgs& args);
int64_t packed_size(Isa isa, const PackedMatrix& m);

}  // namespace gpt::gemm
