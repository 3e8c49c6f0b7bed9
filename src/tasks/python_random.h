#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpt {

// Generates the same numbers and choices as Python's random.Random(seed) in CPython 3.11 and 3.12. The
// algorithm is Mersenne Twister 19937 (Matsumoto and Nishimura 1998), seeded with the 32-bit words of the
// seed. Used to sample the same examples as other benchmark programs. All other random numbers come from
// RandomStream.
class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  uint32_t next_u32();
  double random();             // uniform in [0, 1), 53 bits
  uint64_t below(uint64_t n);  // uniform in [0, n), 1 <= n < 2^32

  // Returns the indices that sample(range(n), k) chooses. Requires k <= n.
  std::vector<size_t> sample(size_t n, size_t k);
  // Returns the numbers 0 .. n - 1, shuffled like list(range(n)) by Python's random.shuffle.
  std::vector<size_t> shuffled(size_t n);

 private:
  void fill();

  std::array<uint32_t, 624> state_{};
  size_t used_ = 624;
};

}  // namespace gpt
