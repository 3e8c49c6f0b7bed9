#pragma once

#include <cstdint>

#include "kernels/kernel_table.h"

namespace gpt {

// How many bytes ahead of its place a loop that reads weights once, at the speed of memory, asks for lines
// into the second-level cache; 0: not at all. Intel's servers, those with AMX, have their memory so far away
// that the processor's own prefetching leaves a sixth of the bandwidth unused; Zen 4 does better without help
// (docs/log.md).
inline int64_t streaming_distance(Isa isa) {
  constexpr int64_t kDistance = 6144;
  return isa == Isa::amx ? kDistance : 0;
}

}  // namespace gpt
