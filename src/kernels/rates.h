#pragma once

#include <cstdint>

namespace gpt {

enum class Isa : uint8_t;

// A loop of multiply-adds on registers alone: `run` does `rounds` times `operations` of them, a
// multiplication and an addition counting as two, and returns something that depends on all of them.
struct RateLoop {
  float (*run)(int64_t rounds) noexcept = nullptr;  // null: the instruction set has no such instruction
  int64_t operations = 0;
};

// What one thread can do at most with an instruction set. `gpt bench` holds the kernels against it.
struct RateKernels {
  RateLoop fp32, bf16, int8;
  float (*sum)(const float* x, int64_t n) noexcept = nullptr;  // reads memory as fast as it comes
};
RateKernels rate_kernels(Isa isa) noexcept;

// Every instruction set enters the loops that it has; those of the set below stay.
void set_rates_avx2(RateKernels& k) noexcept;
void set_rates_avx512(RateKernels& k) noexcept;
void set_rates_avx512bf16(RateKernels& k) noexcept;
void set_rates_amx(RateKernels& k) noexcept;

}  // namespace gpt
