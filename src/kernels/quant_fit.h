#pragma once

#include "kernels/quant.h"

namespace gpt {

// A super-block of 256 values, fitted for least squared error; blocks with a NaN or an infinity become NaN.
void quantize_block(const float* x, BlockQ4K& block);
void quantize_block(const float* x, BlockQ5K& block);
void quantize_block(const float* x, BlockQ6K& block);

}  // namespace gpt
