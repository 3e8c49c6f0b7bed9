#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/kernel_table.h"
#include "tensor/buffer.h"

namespace gpt {

// Peak rates per second of this machine with all threads of a pool. A rate is 0 if the instruction set has no
// instruction for the operation.
struct MachineLimits {
  double fp32 = 0, bf16 = 0, int8 = 0;  // multiplications and additions per second
  double memory = 0;                    // bytes read per second

  // Returns the peak matmul throughput for a dtype. If the instruction set has no instruction for bf16 or
  // int8, returns the rate of fp32 for the dtypes that need this instruction.
  double operations(DType dtype) const;
};

// Measures how many bytes per second all threads of a pool together can sum. The memory is allocated once and
// used for all measurements.
class MemoryRate {
 public:
  MemoryRate(ThreadPool& pool, Isa isa, int64_t bytes);
  // Returns the best rate of `tries` measurements.
  double measure(int tries) const;

 private:
  template <class F>
  void for_pieces(F&& body) const;

  ThreadPool& pool_;
  Isa isa_;
  int64_t n_;
  Buffer memory_;
};

// Measures the peak rates. Takes about 100 ms, plus the time for several sums over `bytes` bytes of memory.
// Each rate is the best of several measurements, because other processes and interrupts can only reduce it.
MachineLimits measure_limits(ThreadPool& pool, Isa isa, int64_t bytes);

// Returns the mean of two measurements. If one measurement is made before a run and the other one after it,
// the mean is an estimate of the rates during the run.
MachineLimits between(const MachineLimits& a, const MachineLimits& b);

}  // namespace gpt
