#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace gpt {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers that the authors publish with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  constexpr uint32_t ones = 0xffffffffu;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
            (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(RandomStream, StreamsDifferInEveryPartOfTheirKey) {
  std::set<uint64_t> firsts;
  for (uint64_t seed : {0ull, 1ull, ~0ull}) {
    for (RandomSite site : {RandomSite::init, RandomSite::data}) {
      for (uint64_t step : {0ull, 1ull, 1ull << 40}) {
        for (uint64_t index : {0ull, 1ull, 1ull << 33})
          firsts.insert(RandomStream(seed, site, step, index).next_u64());
      }
    }
  }
  EXPECT_EQ(firsts.size(), 3u * 2 * 3 * 3);
  EXPECT_EQ(RandomStream(5, RandomSite::test, 6, 7).next_u64(),
            RandomStream(5, RandomSite::test, 6, 7).next_u64());
}

TEST(RandomStream, UniformAndNormalHaveTheirMoments) {
  RandomStream random(1, RandomSite::test);
  constexpr int n = 200000;
  double uniform = 0, uniform2 = 0, normal = 0, normal2 = 0, normal4 = 0;
  for (int i = 0; i < n; ++i) {
    const double u = random.uniform(), z = random.normal();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    uniform += u / n;
    uniform2 += u * u / n;
    normal += z / n;
    normal2 += z * z / n;
    normal4 += z * z * z * z / n;
  }
  // The tolerances are five standard errors: sqrt(1/12n), sqrt(4/45n), sqrt(1/n), sqrt(2/n), sqrt(96/n).
  EXPECT_NEAR(uniform, 1 / 2.0, 5 * std::sqrt(1 / 12.0 / n));
  EXPECT_NEAR(uniform2, 1 / 3.0, 5 * std::sqrt(4 / 45.0 / n));
  EXPECT_NEAR(normal, 0, 5 * std::sqrt(1.0 / n));
  EXPECT_NEAR(normal2, 1, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(normal4, 3, 5 * std::sqrt(96.0 / n));
}

TEST(RandomStream, BelowIsUniformAndInRange) {
  RandomStream random(2, RandomSite::test);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70000; ++i)
    ++counts[random.below(7)];
  for (int count : counts)
    EXPECT_NEAR(count, 10000, 5 * std::sqrt(70000 * (1 / 7.0) * (6 / 7.0)));
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(random.below(1), 0u);
  for (int i = 0; i < 1000; ++i)
    EXPECT_LT(random.below((1ull << 63) + 1), (1ull << 63) + 1);
}

}  // namespace
}  // namespace gpt
