#pragma once

#include "kernels/quant.h"

namespace gpt {

// Quantize a block of 32 or a super-block of 256 values with the least squared error. Blocks with a NaN or an
// infinity become NaN.
void quantize_block(const float* x, BlockIq4& block);
void quantize_block(const float* x, BlockQ4K& block);
void quantize_block(const float* x, BlockQ5K& block);
void quantize_block(const float* x, BlockQ6K& block);

}  // namespace gpt
