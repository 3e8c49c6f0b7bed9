#pragma once

// Selects the backend that tests run models on. The default is the CPU backend of the program. With
// GPT_SHADOW=1 in the environment, it is the shadow device (shadow_device.h).

#include "kernels/backend.h"
#include "support/isas.h"
#include "support/shadow_device.h"

namespace gpt::test {

// Returns the device that tests run on. A null pointer means host memory.
inline Device* device() {
  return is_shadow() ? &shadow_device() : nullptr;
}
inline std::shared_ptr<Device> shared_device() {
  if (is_shadow()) return {&shadow_device(), [](Device*) {}};
  return std::make_shared<HostDevice>();
}

inline const KernelTable& kernels(Isa isa) {
  if (!is_shadow()) return kernel_table(isa);
  static const ShadowKernels tables[] = {
      ShadowKernels(kernel_table(Isa::ref)), ShadowKernels(kernel_table(Isa::avx2)),
      ShadowKernels(kernel_table(Isa::avx512)), ShadowKernels(kernel_table(Isa::avx512bf16)),
      ShadowKernels(kernel_table(Isa::amx))};
  return tables[static_cast<size_t>(isa)];
}

inline Backend backend(ThreadPool& pool, Isa isa) {
  return {pool, kernels(isa), shared_device()};
}

}  // namespace gpt::test
