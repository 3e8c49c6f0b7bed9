#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpt {

// Python's random.Random(seed): the same numbers and choices as CPython 3.11 and 3.12. Mersenne Twister 19937
// (Matsumoto and Nishimura 1998), seeded by the 32-bit words of the seed. Other programs' benchmarks draw
// their examples by it; our own randomness is RandomStream.
class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  uint32_t next_u32();
  double random();             // [0, 1), 53 bits
  uint64_t below(uint64_t n);  // uniform in [0, n), 1 <= n < 2^32

  // The positions that sample(range(n), k) gives, k <= n.
  std::vector<size_t> sample(size_t n, size_t k);
  // The order that shuffle(range(n)) leaves.
  std::vector<size_t> shuffled(size_t n);

 private:
  void fill();

  std::array<uint32_t, 624> state_{};
  size_t used_ = 624;
};

}  // namespace gpt
