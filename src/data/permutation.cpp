#include "data/permutation.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/rng.h"

namespace gpt {
namespace {

// Halves of fewer bits leave too few round functions for small n to reach every order.
constexpr int kMinHalfBits = 3;

// The finaliser of MurmurHash3 (64 bit): every input bit reaches every output bit.
uint64_t scramble(uint64_t x) {
  x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDull;
  x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53ull;
  return x ^ x >> 33;
}

}  // namespace

KeyedPermutation::KeyedPermutation(int64_t n, uint64_t seed, uint64_t epoch) : n_(static_cast<uint64_t>(n)) {
  GPT_ASSERT(n >= 1);
  half_bits_ = std::max(kMinHalfBits, (static_cast<int>(std::bit_width(n_ - 1)) + 1) / 2);
  // Step 0 of this site belongs to random windows.
  RandomStream stream(seed, RandomSite::data, 1, epoch);
  for (uint64_t& key : keys_)
    key = stream.next_u64();
}

int64_t KeyedPermutation::operator()(int64_t i) const {
  GPT_ASSERT(i >= 0 && static_cast<uint64_t>(i) < n_);
  if (n_ == 1) return 0;
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto x = static_cast<uint64_t>(i);
  do {
    uint64_t left = x >> half_bits_;
    uint64_t right = x & mask;
    for (const uint64_t key : keys_) {
      const uint64_t mixed = left ^ (scramble(right ^ key) & mask);
      left = right;
      right = mixed;
    }
    x = left << half_bits_ | right;
  } while (x >= n_);
  return static_cast<int64_t>(x);
}

}  // namespace gpt
