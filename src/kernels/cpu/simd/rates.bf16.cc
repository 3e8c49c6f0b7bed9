#include "kernels/rates.h"
#include "kernels/cpu/simd/vec.h"

namespace gpt {
namespace {

// Number of independent sums. Dot product instructions have a latency of up to six cycles, and at most two
// start per cycle.
constexpr int kSums = 12;
constexpr int kBf16Lanes = 32, kInt8Lanes = 64;

float bf16_dot(int64_t rounds) noexcept {
  __m512 sum[kSums];
  for (int i = 0; i < kSums; ++i)
    sum[i] = _mm512_set1_ps(static_cast<float>(i));
  // Small factors, so that no sum overflows.
  const __m512 small = _mm512_set1_ps(1e-6f);
  const __m512bh a = _mm512_cvtne2ps_pbh(small, small), b = _mm512_cvtne2ps_pbh(small, small);
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kSums; ++i)
      sum[i] = _mm512_dpbf16_ps(sum[i], a, b);
  }
  __m512 total = sum[0];
  for (int i = 1; i < kSums; ++i)
    total = _mm512_add_ps(total, sum[i]);
  return _mm512_reduce_add_ps(total);
}

float int8_dot(int64_t rounds) noexcept {
  __m512i sum[kSums];
  for (int i = 0; i < kSums; ++i)
    sum[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(-1);
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kSums; ++i)
      sum[i] = _mm512_dpbusd_epi32(sum[i], a, b);
  }
  __m512i total = sum[0];
  for (int i = 1; i < kSums; ++i)
    total = _mm512_add_epi32(total, sum[i]);
  return static_cast<float>(_mm512_reduce_add_epi32(total));
}

}  // namespace

void set_rates_avx512bf16(RateKernels& k) noexcept {
  k.bf16 = {.run = bf16_dot, .operations = 2 * kSums * kBf16Lanes};
  k.int8 = {.run = int8_dot, .operations = 2 * kSums * kInt8Lanes};
}

}  // namespace gpt
