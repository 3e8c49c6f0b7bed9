#pragma once

#include <array>
#include <cstdint>

namespace gpt {

// A pseudo-random permutation of 0 .. n-1 that is computed, not stored: a Feistel network over the next
// even number of bits, walking its cycles until it lands below n (Black & Rogaway 2002, "Ciphers with
// arbitrary finite domains"). Keyed by (seed, RandomSite::data, epoch).
class KeyedPermutation {
 public:
  KeyedPermutation(int64_t n, uint64_t seed, uint64_t epoch);  // n >= 1
  int64_t operator()(int64_t i) const;                         // 0 <= i < n

 private:
  static constexpr int kRounds = 8;
  uint64_t n_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace gpt
