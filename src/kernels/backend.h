#pragma once

#include <memory>

#include "kernels/kernel_table.h"

namespace gpt {

// A device, its ops and the CPU threads: everything needed to run a model. Copies share the device. Pool and
// table must outlive all objects that use the backend.
struct Backend {
  ThreadPool& pool;
  const KernelTable& kernels;
  std::shared_ptr<Device> device = std::make_shared<HostDevice>();

  // Returns the device of views in its memory; null for the host.
  Device* view_device() const { return device->is_host() ? nullptr : device.get(); }
  ExecContext context(const Scratch& scratch = {}) const { return {*device, pool, kernels, scratch}; }
};

// Returns the CPU backend for an instruction set.
inline Backend host_backend(ThreadPool& pool, Isa isa) {
  return {pool, kernel_table(isa)};
}
// For code that creates its own threads.
using MakeBackend = Backend (*)(ThreadPool& pool, Isa isa);

}  // namespace gpt
