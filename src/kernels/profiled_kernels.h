#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"

namespace gpt {

// The number of calls of an op, their total time and, for matrix products and attention, their FLOPs.
struct OpTime {
  const char* op;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;
};

// A kernel table that times the ops of another kernel table. Its entries find the ProfiledKernels object
// through ExecContext::kernels, so the table must be passed by reference; a copy of the KernelTable base
// class does not work. Only one thread may call ops at a time.
struct ProfiledKernels : KernelTable {
  explicit ProfiledKernels(const KernelTable& inner);
  ProfiledKernels(const ProfiledKernels&) = delete;
  ProfiledKernels& operator=(const ProfiledKernels&) = delete;

  // Returns the ops called since `clear`, sorted by total time, longest first.
  std::vector<OpTime> times() const;
  void clear();

#define GPT_COUNT_OP(name, Args) +1
  static constexpr int kOps = GPT_FOR_EACH_OP(GPT_COUNT_OP);
#undef GPT_COUNT_OP
  struct Counter {
    int64_t calls = 0;
    int64_t nanoseconds = 0;
    double flops = 0;
  };
  const KernelTable& inner;
  mutable std::array<Counter, kOps> counters{};  // in the order of GPT_FOR_EACH_OP
};

}  // namespace gpt
