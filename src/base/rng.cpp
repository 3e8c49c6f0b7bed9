#include "base/rng.h"

#include <cmath>

namespace gpt {
namespace {

// The SplitMix64 finalizer, which spreads every input bit over the whole word.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

uint32_t low(uint64_t x) {
  return static_cast<uint32_t>(x);
}
uint32_t high(uint64_t x) {
  return static_cast<uint32_t>(x >> 32);
}

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * c[2];
    c = {high(b) ^ c[1] ^ k[0], low(b), high(a) ^ c[3] ^ k[1], low(a)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

RandomStream::RandomStream(uint64_t seed, RandomSite site, uint64_t step, uint64_t index) {
  const uint64_t key = mix(seed) ^ mix(mix(static_cast<uint64_t>(site)));
  key_ = {low(key), high(key)};
  // The lowest counter word counts blocks. The other three words hold (step, index), mixed so that no bits of
  // large values are lost.
  const uint64_t where = mix(step) + index * 0x9E3779B97F4A7C15ull;
  counter_ = {0, low(index), low(where), high(where)};
}

uint32_t RandomStream::next_u32() {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[static_cast<size_t>(used_++)];
}

uint64_t RandomStream::next_u64() {
  const uint64_t upper = next_u32();
  return upper << 32 | next_u32();
}

double RandomStream::uniform() {
  return static_cast<double>(next_u64() >> 11) * 0x1p-53;
}

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  const double angle = 2 * 3.14159265358979323846 * uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

uint64_t RandomStream::below(uint64_t n) {
  const uint64_t limit = UINT64_MAX - UINT64_MAX % n;  // the largest multiple of n that fits
  uint64_t x = next_u64();
  while (x >= limit)
    x = next_u64();
  return x % n;
}

}  // namespace gpt
