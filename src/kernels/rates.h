#pragma once

#include <cstdint>

namespace gpt {

enum class Isa : uint8_t;

// A loop of multiply-adds that only uses registers. `run` executes `rounds` times `operations` FLOPs, where a
// multiply-add counts as two. `run` returns a value that depends on all operations, so that the compiler
// cannot remove the loop.
struct RateLoop {
  float (*run)(int64_t rounds) noexcept = nullptr;  // null: the instruction set has no such instruction
  int64_t operations = 0;
};

// Loops that measure the peak throughput of one thread with an instruction set. `gpt bench` compares the
// throughput of the ops with this peak.
struct RateKernels {
  RateLoop fp32, bf16, int8;
  float (*sum)(const float* x, int64_t n) noexcept = nullptr;  // measures memory bandwidth
};
RateKernels rate_kernels(Isa isa) noexcept;

// Each function replaces the loops for which its instruction set has faster instructions. It leaves all other
// loops unchanged.
void set_rates_avx2(RateKernels& k) noexcept;
void set_rates_avx512(RateKernels& k) noexcept;
void set_rates_avx512bf16(RateKernels& k) noexcept;
void set_rates_amx(RateKernels& k) noexcept;

}  // namespace gpt
