#pragma once

#include <string>

#include "model/model_files.h"

namespace gpt {

// Throws Error naming the tensor and the index of the first value of a loaded parameter that is NaN or
// infinite, or that would be infinite in `dtype`. fp16 and bf16 are limited by their range, and quantized
// dtypes by the range of their fp16 scales. llama.cpp checks quantized files in the same way. Also throws
// Error if a parameter has nonzero values, but all its values become zero in `dtype`.
void check_values(const LoadedModel& loaded, int id, DType dtype);

}  // namespace gpt
