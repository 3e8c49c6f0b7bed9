#include "kernels/ops.h"

#include "base/rng.h"

namespace gpt {

uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t site, uint32_t layer) {
  return RandomStream(seed, static_cast<RandomSite>(site), step, layer).next_u64();
}

}  // namespace gpt
