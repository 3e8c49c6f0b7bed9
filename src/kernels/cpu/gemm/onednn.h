#pragma once

#include "kernels/cpu/gemm/gemm.h"

namespace gpt::gemm {

// Whether this build has oneDNN and this CPU is one where it may be used for `isa`: oneDNN picks its
// instruction set once for the whole process, so it serves only Isa::avx512.
bool onednn_serves(Isa isa);

// The whole product on the calling thread, bias not included; false when oneDNN refuses (out of memory).
// oneDNN allocates its packing buffers inside.
bool onednn_multiply(const Product& p) noexcept;

}  // namespace gpt::gemm
