#include "bench/limits.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/rates.h"

namespace gpt {
namespace {

TEST(Limits, EveryInstructionSetMeasuresWhatItHas) {
  ThreadPool pool(2);
  for (const Isa isa : kIsas) {
    if (isa > best_isa()) continue;
    SCOPED_TRACE(isa_name(isa));
    const MachineLimits limits = measure_limits(pool, isa, 1 << 20);
    EXPECT_GT(limits.fp32, 0);
    EXPECT_GT(limits.memory, 0);
    EXPECT_EQ(limits.bf16 > 0, isa >= Isa::avx512bf16);
    EXPECT_EQ(limits.int8 > 0, isa >= Isa::avx512bf16);
  }
}

TEST(Limits, SumsAreSums) {
  for (const Isa isa : kIsas) {
    if (isa > best_isa()) continue;
    SCOPED_TRACE(isa_name(isa));
    for (const int64_t n : {0, 1, 15, 16, 63, 64, 65, 1000}) {
      const std::vector<float> x(static_cast<size_t>(n), 1.0f);
      EXPECT_EQ(rate_kernels(isa).sum(x.data(), n), static_cast<float>(n));
    }
  }
}

TEST(Limits, TypesAreHeldAgainstTheirInstructions) {
  const MachineLimits all{.fp32 = 1, .bf16 = 2, .int8 = 3, .memory = 4};
  EXPECT_EQ(all.operations(DType::f32), 1);
  EXPECT_EQ(all.operations(DType::f16), 1);
  EXPECT_EQ(all.operations(DType::bf16), 2);
  EXPECT_EQ(all.operations(DType::q8_0), 3);
  EXPECT_EQ(all.operations(DType::q4_0), 3);
  const MachineLimits plain{.fp32 = 1};
  EXPECT_EQ(plain.operations(DType::bf16), 1);
  EXPECT_EQ(plain.operations(DType::q8_0), 1);
}

TEST(Limits, TheMiddleOfTwo) {
  const MachineLimits middle =
      between({.fp32 = 1, .bf16 = 2, .int8 = 3, .memory = 4}, {.fp32 = 3, .memory = 8});
  EXPECT_EQ(middle.fp32, 2);
  EXPECT_EQ(middle.bf16, 1);
  EXPECT_EQ(middle.memory, 6);
}

}  // namespace
}  // namespace gpt
