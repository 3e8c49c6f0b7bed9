#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"

namespace gpt {

// Returns the L2 prefetch distance in bytes for loops that read weights once, at memory bandwidth. Returns 0
// if these loops should not use software prefetching. On Intel servers with AMX, memory latency is so high
// that hardware prefetching leaves a sixth of the bandwidth unused. Zen 4 is faster without software
// prefetching (docs/log/inference.md).
inline int64_t streaming_distance(Isa isa) {
  constexpr int64_t kDistance = 6144;
  return isa == Isa::amx ? kDistance : 0;
}

}  // namespace gpt
