#pragma once

#include <string>

#include "model/model_files.h"

namespace gpt {

// Throws Error naming the tensor and the index of the first value of a loaded parameter that is NaN or
// infinite, or that a type would make infinite: fp16 and bf16 by their range, block formats by that of their
// fp16 scales. llama.cpp checks quantized files likewise. Throws Error, too, where a type would make nothing
// but zeros of a parameter that is not zero.
void check_values(const LoadedModel& loaded, int id, DType dtype);

}  // namespace gpt
