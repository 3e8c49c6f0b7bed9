#pragma once

#include "kernels/rates.h"

// Every instruction set enters the loops that it has; those of the set below stay.
namespace gpt {

void set_rates_avx2(RateKernels& k) noexcept;
void set_rates_avx512(RateKernels& k) noexcept;
void set_rates_avx512bf16(RateKernels& k) noexcept;
void set_rates_amx(RateKernels& k) noexcept;

}  // namespace gpt
