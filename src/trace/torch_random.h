#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace gpt {

// Generates the same random numbers as PyTorch on a CPU after torch.manual_seed(seed), if the calls are in
// the same order as in PyTorch. The demonstrations use this class to reproduce published results that were
// computed with PyTorch. All other code uses the counter-based generator in base/rng.h.
//
// The generator is a Mersenne Twister (Matsumoto and Nishimura 1998) that produces 32 bits per draw. Normal
// numbers agree with PyTorch up to rounding, because logarithm, sine and cosine come from the math library of
// this machine.
class TorchRandom {
 public:
  explicit TorchRandom(uint32_t seed) : engine_(seed) {}

  // Generates normal numbers with mean 0 and standard deviation 1, like torch.randn and nn.Embedding. If
  // `out` has 16 or more elements, the values are generated in groups of 16. Otherwise, the values are
  // generated in pairs in double precision. An unused second value of a pair is kept for the next call.
  void normal(std::span<float> out);
  // Generates uniform numbers in [low, high). nn.Linear initializes its weights with low = -1/sqrt(fan_in)
  // and high = 1/sqrt(fan_in).
  void uniform(std::span<float> out, float low, float high);
  // Returns the mask of nn.Dropout(1 - keep). True means that the element is kept.
  std::vector<bool> bernoulli(int64_t count, double keep);

 private:
  float uniform_float();    // 24 random bits
  double uniform_double();  // 53 random bits
  void fill_sixteen(std::span<float> out);
  double pair_normal();

  std::mt19937 engine_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace gpt
