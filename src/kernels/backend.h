#pragma once

#include <memory>

#include "kernels/kernel_table.h"

namespace gpt {

// A backend bundles everything needed to run a model: a device, its kernel table and the CPU thread pool.
// Copies of a Backend share one device. The pool and the kernel table must outlive every object that uses the
// backend.
struct Backend {
  ThreadPool& pool;
  const KernelTable& kernels;
  std::shared_ptr<Device> device = std::make_shared<HostDevice>();

  // Returns the device for tensor views in the memory of this backend, or null for host memory.
  Device* view_device() const { return device->is_host() ? nullptr : device.get(); }
  ExecContext context(const Scratch& scratch = {}) const { return {*device, pool, kernels, scratch}; }
};

// Returns a CPU backend that uses the given instruction set.
inline Backend host_backend(ThreadPool& pool, Isa isa) {
  return {pool, kernel_table(isa)};
}
// A function that creates a Backend for a given thread pool. Code that creates its own thread pools receives
// a MakeBackend function instead of a Backend.
using MakeBackend = Backend (*)(ThreadPool& pool, Isa isa);

}  // namespace gpt
