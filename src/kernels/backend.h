#pragma once

#include "kernels/kernel_table.h"

namespace gpt {

// Where models run: the threads, the ops and their memory. All must outlive what is made with it.
struct Backend {
  ThreadPool& pool;
  const KernelTable& kernels;
  DeviceAllocator* memory = nullptr;  // null: ops read and write memory of the host

  ExecContext context(const Scratch& scratch = {}) const { return {pool, kernels, scratch}; }
};

// The memory of the host.
inline Backend host_backend(ThreadPool& pool, Isa isa) {
  return {pool, kernel_table(isa)};
}
// For those who make threads of their own.
using MakeBackend = Backend (*)(ThreadPool& pool, Isa isa);

}  // namespace gpt
