#pragma once

#include <cstdint>

namespace gpt {

// Storage dtypes that the SIMD kernels support. Arithmetic is in fp32.
enum class Stored : uint8_t { f32, bf16, f16, i8, q4_0 };

}  // namespace gpt
