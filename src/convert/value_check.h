#pragma once

#include <string>

#include "model/model_files.h"

namespace gpt {

// Throws Error naming the tensor and the index of the first value of a loaded parameter that is NaN or
// infinite, or that a type would make infinite: fp16 and bf16 by their range, block formats by that of their
// fp16 scales. llama.cpp does the same check on quantized files. Also throws Error if a
// parameter that is not all zeros would be all zeros in that type.
void check_values(const LoadedModel& loaded, int id, DType dtype);

}  // namespace gpt
