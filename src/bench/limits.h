#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "tensor/buffer.h"

namespace gpt {

// What this machine can do at most with all threads of a pool, per second. 0: the instruction set has no
// instruction for it.
struct MachineLimits {
  double fp32 = 0, bf16 = 0, int8 = 0;  // multiplications and additions
  double memory = 0;                    // bytes read

  // The rate that products in a type are held against: bf16 and the quantised types fall back on fp32 where
  // the instruction set does not know them.
  double operations(DType dtype) const;
};

// How fast all threads of a pool together sum memory, bytes per second; the memory is kept between
// measurements.
class MemoryRate {
 public:
  MemoryRate(ThreadPool& pool, Isa isa, int64_t bytes);
  // The best of `tries`.
  double measure(int tries) const;

 private:
  template <class F>
  void for_pieces(F&& body) const;

  ThreadPool& pool_;
  Isa isa_;
  int64_t n_;
  Buffer memory_;
};

// Takes some 100 ms and the time to sum `bytes` of memory a few times. The best of several tries counts:
// neighbours and interrupts only ever make it slower.
MachineLimits measure_limits(ThreadPool& pool, Isa isa, int64_t bytes);

// The middle of two measurements: what the machine gave while something ran between them.
MachineLimits between(const MachineLimits& a, const MachineLimits& b);

}  // namespace gpt
