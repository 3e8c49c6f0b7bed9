#include "kernels/rates.h"

#include "base/ranges.h"
#include "kernels/kernel_table.h"

namespace gpt {
namespace {

// The loops in this file are plain C++, like the reference kernels, so they measure what the compiler can
// vectorize.
constexpr int kSums = 64;

float multiply_add(int64_t rounds) noexcept {
  float sum[kSums];
  for (int i = 0; i < kSums; ++i)
    sum[i] = static_cast<float>(i);
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kSums; ++i)
      sum[i] = sum[i] * 0.999f + 0.001f;
  }
  return sum_of(sum);
}

float sum(const float* x, int64_t n) noexcept {
  constexpr int kLanes = 16;
  float total[kLanes] = {};
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j)
      total[j] += x[i + j];
  }
  float all = sum_of(total);
  for (int64_t i = n - n % kLanes; i < n; ++i)
    all += x[i];
  return all;
}

}  // namespace

RateKernels rate_kernels(Isa isa) noexcept {
  RateKernels k{.fp32 = {.run = multiply_add, .operations = 2 * kSums}, .sum = sum};
#ifdef GPT_HAVE_SIMD
  if (isa >= Isa::avx2) set_rates_avx2(k);
  if (isa >= Isa::avx512) set_rates_avx512(k);
  if (isa >= Isa::avx512bf16) set_rates_avx512bf16(k);
  if (isa >= Isa::amx) set_rates_amx(k);
#else
  (void)isa;
#endif
  return k;
}

}  // namespace gpt
