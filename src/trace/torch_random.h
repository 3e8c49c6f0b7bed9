#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace gpt {

// The random numbers of PyTorch on a CPU after torch.manual_seed(seed), in the order in which they are asked
// for. Texts that print numbers from a seed can be followed with it; everything else here draws from the
// counter-based numbers of base/rng.h.
// A Mersenne twister (Matsumoto and Nishimura 1998) gives 32 bits a draw. Normal numbers agree to rounding:
// logarithm, sine and cosine are those of this machine's library.
class TorchRandom {
 public:
  explicit TorchRandom(uint32_t seed) : engine_(seed) {}

  // torch.randn, nn.Embedding: mean 0, standard deviation 1. Sixteen numbers and more are made in sixteens,
  // fewer in pairs in double, of which one may be left for the next call.
  void normal(std::span<float> out);
  // nn.Linear's weights with low = -1/sqrt(fan_in), high = 1/sqrt(fan_in): from low up to, not including,
  // high.
  void uniform(std::span<float> out, float low, float high);
  // nn.Dropout(1 - keep): true for what is kept.
  std::vector<bool> bernoulli(int64_t count, double keep);

 private:
  float uniform_float();    // 24 bits
  double uniform_double();  // 53 bits
  void fill_sixteen(std::span<float> out);
  double pair_normal();

  std::mt19937 engine_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace gpt
