#pragma once

#include <cstdint>

namespace gpt {

enum class Isa : uint8_t;

// A loop of register-only multiply-adds. `run` executes `rounds` times `operations` FLOPs (a multiply-add
// counts as two) and returns a value that depends on all of them.
struct RateLoop {
  float (*run)(int64_t rounds) noexcept = nullptr;  // null: the instruction set has no such instruction
  int64_t operations = 0;
};

// Loops that measure the peak throughput of one thread with an instruction set. `gpt bench` compares the
// kernels with it.
struct RateKernels {
  RateLoop fp32, bf16, int8;
  float (*sum)(const float* x, int64_t n) noexcept = nullptr;  // measures memory bandwidth
};
RateKernels rate_kernels(Isa isa) noexcept;

// Each sets the loops that its instruction set implements and keeps the loops of the previous set.
void set_rates_avx2(RateKernels& k) noexcept;
void set_rates_avx512(RateKernels& k) noexcept;
void set_rates_avx512bf16(RateKernels& k) noexcept;
void set_rates_amx(RateKernels& k) noexcept;

}  // namespace gpt
