#pragma once

#include <array>
#include <cstdint>

namespace gpt {

// Purposes of random numbers. Each site has its own stream, so that a new site does not change the random
// numbers of other sites. The values are part of the checkpoint format: never renumber.
enum class RandomSite : uint32_t {
  init = 1,
  data = 2,
  eval = 3,
  sample = 4,
  corpus = 5,
  dropout_embedding = 16,
  dropout_attention = 17,
  dropout_attention_out = 18,
  dropout_mlp_out = 19,
  dropout_task_head = 20,
  dropout_adapter = 21,
  test = 255,
};

// Philox4x32-10: four random words from a 128-bit counter and a 64-bit key.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// An infinite random stream keyed by (seed, site, step, index). Streams with different keys are independent.
// The only state of a stream is its position, so any random number can be recomputed anywhere.
class RandomStream {
 public:
  RandomStream(uint64_t seed, RandomSite site, uint64_t step = 0, uint64_t index = 0);

  uint32_t next_u32();
  uint64_t next_u64();
  double uniform();            // [0, 1), 53 bits
  double normal();             // mean 0, variance 1 (Box-Muller)
  uint64_t below(uint64_t n);  // uniform in [0, n), without bias; n >= 1

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
  double spare_normal_ = 0;
  bool has_spare_ = false;
};

}  // namespace gpt
