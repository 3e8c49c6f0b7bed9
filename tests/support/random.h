#pragma once

#include "base/rng.h"

namespace gpt::test {

// Returns an approximately normal random number with mean 0 and variance 1: the sum of four uniform numbers.
// Tests draw more random numbers than an op computes values, and this function takes a tenth of the time of
// RandomStream::normal.
inline double bell(RandomStream& random) {
  const uint64_t bits = random.next_u64();
  const auto part = [&](int i) { return static_cast<double>(bits >> 16 * i & 0xFFFF) + 0.5; };
  constexpr double kSqrt3 = 1.7320508075688772;
  return kSqrt3 * ((part(0) + part(1) + part(2) + part(3)) * 0x1p-16 - 2);
}

}  // namespace gpt::test
