#pragma once

#include <cstdint>

namespace gpt {

// What the rows of a view hold, as far as the SIMD kernels know it. Arithmetic is in fp32.
enum class Stored : uint8_t { f32, bf16, f16, i8, q4_0 };

}  // namespace gpt
