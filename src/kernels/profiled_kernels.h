#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/kernel_table.h"

namespace gpt {

// Calls of one op, the time they took and, for products and attention, their multiplications and additions.
struct OpTime {
  const char* op;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;
};

// A kernel table whose entries time those of another table. The entries find it through ExecContext, so it
// is passed on by reference like any table; a copy of the KernelTable in it would not work. One thread at a
// time may call ops, as always.
struct ProfiledKernels : KernelTable {
  explicit ProfiledKernels(const KernelTable& inner);
  ProfiledKernels(const ProfiledKernels&) = delete;
  ProfiledKernels& operator=(const ProfiledKernels&) = delete;

  // Ops that were called since `clear`, most time first.
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
  mutable std::array<Counter, kOps> counters{};  // in the order of the op list
};

}  // namespace gpt
