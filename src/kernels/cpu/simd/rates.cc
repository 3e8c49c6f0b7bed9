#include "kernels/rates.h"
#include "kernels/cpu/simd/vec.h"

namespace gpt {
namespace GPT_SIMD_NAMESPACE {
namespace {

// Number of independent sums. Twelve sums hide the latency of multiply-adds if the CPU starts two per cycle.
// Together with the two factors they fit into the 16 registers of AVX2.
constexpr int kSums = 12;

float multiply_add(int64_t rounds) noexcept {
  Vec sum[kSums];
  for (int i = 0; i < kSums; ++i)
    sum[i] = set1(static_cast<float>(i));
  const Vec a = set1(0.999f), b = set1(0.001f);
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < kSums; ++i)
      sum[i] = fma(sum[i], a, b);
  }
  Vec total = sum[0];
  for (int i = 1; i < kSums; ++i)
    total = total + sum[i];
  return reduce_add(total);
}

float sum(const float* x, int64_t n) noexcept {
  Vec total[4] = {zero(), zero(), zero(), zero()};
  for_vectors_by_4(n, [&](int k, int64_t i, auto lanes) { total[k] = total[k] + load(x + i, lanes); });
  return reduce_add(total);
}

void set_rates(RateKernels& k) noexcept {
  k.fp32 = {.run = multiply_add, .operations = 2 * kSums * kLanes};
  k.sum = sum;
}

}  // namespace
}  // namespace GPT_SIMD_NAMESPACE

#ifdef GPT_SIMD_AVX512
void set_rates_avx512(RateKernels& k) noexcept {
#else
void set_rates_avx2(RateKernels& k) noexcept {
#endif
  GPT_SIMD_NAMESPACE::set_rates(k);
}

}  // namespace gpt
