#include "tasks/python_random.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "base/error.h"

namespace gpt {
namespace {

constexpr size_t kWords = 624, kShift = 397;

// init_by_array of the reference implementation, which starts with init_genrand(19650218).
void seed_by_array(std::array<uint32_t, kWords>& s, const std::vector<uint32_t>& key) {
  s[0] = 19650218;
  for (uint32_t i = 1; i < kWords; ++i)
    s[i] = 1812433253U * (s[i - 1] ^ (s[i - 1] >> 30)) + i;
  size_t i = 1, j = 0;
  const auto advance = [&] {
    if (++i < kWords) return;
    s[0] = s[kWords - 1];
    i = 1;
  };
  for (size_t k = std::max(kWords, key.size()); k > 0; --k) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525U)) + key[j] + static_cast<uint32_t>(j);
    advance();
    if (++j == key.size()) j = 0;
  }
  for (size_t k = kWords - 1; k > 0; --k) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941U)) - static_cast<uint32_t>(i);
    advance();
  }
  s[0] = 0x80000000U;
}

// Returns the largest population size for which sample() copies the population. For larger populations,
// sample() stores the chosen elements in a set.
double sample_set_size(size_t k) {
  return k > 5 ? 21 + std::pow(4.0, std::ceil(std::log(3.0 * static_cast<double>(k)) / std::log(4.0))) : 21;
}

}  // namespace

PythonRandom::PythonRandom(uint64_t seed) {
  std::vector<uint32_t> key{static_cast<uint32_t>(seed)};
  if (seed >> 32 != 0) key.push_back(static_cast<uint32_t>(seed >> 32));
  seed_by_array(state_, key);
}

void PythonRandom::fill() {
  const auto next = [&](size_t i) { return state_[i % kWords]; };
  for (size_t i = 0; i < kWords; ++i) {
    const uint32_t y = (state_[i] & 0x80000000U) | (next(i + 1) & 0x7fffffffU);
    state_[i] = next(i + kShift) ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908b0dfU : 0);
  }
  used_ = 0;
}

uint32_t PythonRandom::next_u32() {
  if (used_ == kWords) fill();
  uint32_t y = state_[used_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

double PythonRandom::random() {
  const uint32_t a = next_u32() >> 5, b = next_u32() >> 6;
  return (a * 67108864.0 + b) * (1.0 / 9007199254740992.0);
}

uint64_t PythonRandom::below(uint64_t n) {
  GPT_ASSERT(n >= 1 && n >> 32 == 0);
  const auto bits = static_cast<int>(std::bit_width(n));
  uint64_t r = n;
  while (r >= n)
    r = next_u32() >> (32 - bits);
  return r;
}

std::vector<size_t> PythonRandom::sample(size_t n, size_t k) {
  GPT_ASSERT(k <= n);
  std::vector<size_t> chosen;
  if (static_cast<double>(n) <= sample_set_size(k)) {
    std::vector<size_t> pool(n);
    std::iota(pool.begin(), pool.end(), 0);
    for (size_t i = 0; i < k; ++i) {
      const size_t j = below(n - i);
      chosen.push_back(pool[j]);
      pool[j] = pool[n - i - 1];
    }
    return chosen;
  }
  std::unordered_set<size_t> seen;
  while (chosen.size() < k) {
    const size_t j = below(n);
    if (seen.insert(j).second) chosen.push_back(j);
  }
  return chosen;
}

std::vector<size_t> PythonRandom::shuffled(size_t n) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = n; i-- > 1;)
    std::swap(order[i], order[below(i + 1)]);
  return order;
}

}  // namespace gpt
