#pragma once

#include <memory>

#include "kernels/kernel_table.h"

namespace gpt {

// Where models run: a device, its ops, and the threads of the CPU. Copies share the device. Pool and table
// must outlive everything that is made with the backend.
struct Backend {
  ThreadPool& pool;
  const KernelTable& kernels;
  std::shared_ptr<Device> device = std::make_shared<HostDevice>();

  // The device of views in its memory: null for the host.
  Device* view_device() const { return device->is_host() ? nullptr : device.get(); }
  ExecContext context(const Scratch& scratch = {}) const { return {*device, pool, kernels, scratch}; }
};

// The CPU, with one instruction set.
inline Backend host_backend(ThreadPool& pool, Isa isa) {
  return {pool, kernel_table(isa)};
}
// For code that creates threads of its own.
using MakeBackend = Backend (*)(ThreadPool& pool, Isa isa);

}  // namespace gpt
