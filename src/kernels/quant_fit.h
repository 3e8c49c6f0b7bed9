#pragma once

#include "kernels/quant.h"

namespace gpt {

// Quantize a block of 32 values, or a super-block of 256 values, with a search for the smallest squared
// error. Blocks that contain a NaN or an infinity become NaN.
void quantize_block(const float* x, BlockIq4& block);
void quantize_block(const float* x, BlockQ4K& block);
void quantize_block(const float* x, BlockQ5K& block);
void quantize_block(const float* x, BlockQ6K& block);

}  // namespace gpt
