#pragma once

// Where tests run models: the program's own backend, or with GPT_GUARDED=1 in the environment one whose
// memory only ops and HostAccess can touch.

#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <stdexcept>

#include "kernels/backend.h"
#include "support/isas.h"
#include "tensor/memory.h"

namespace gpt::test {

// Memory that is PROT_NONE unless somebody has opened it. Weights of mapped files become part of it.
class GuardedMemory : public Memory {
 public:
  std::byte* allocate(size_t bytes, const char*) override {
    const size_t size = pages(bytes);
    void* const p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("mmap failed");
    const std::lock_guard lock(mutex_);
    add(address(p), size, PROT_READ | PROT_WRITE);
    return static_cast<std::byte*>(p);
  }
  void release(std::byte* data, size_t) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto at = regions_.find(address(data));
    munmap(data, at->second.size);
    regions_.erase(at);
  }
  // Tensors of a file share pages: ranges that touch become one region.
  std::byte* adopt(std::span<const std::byte> host) override {
    const std::lock_guard lock(mutex_);
    uintptr_t begin = address(host.data()) / kPage * kPage, end = pages(address(host.data()) + host.size());
    int owners = 1;
    for (auto at = regions_.begin(); at != regions_.end();) {
      const uintptr_t first = at->first, last = first + at->second.size;
      if (at->second.owners == 0 || last < begin || end < first) {
        ++at;
        continue;
      }
      begin = std::min(begin, first);
      end = std::max(end, last);
      owners += at->second.owners;
      at = regions_.erase(at);
    }
    add(begin, end - begin, PROT_READ);
    regions_[begin].owners = owners;
    return const_cast<std::byte*>(host.data());
  }
  void give_back(std::span<const std::byte> host) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto at = region_of(address(host.data()));
    if (--at->second.owners > 0) return;
    mprotect(pointer(at->first), at->second.size, PROT_READ);
    regions_.erase(at);
  }
  std::byte* open(std::byte* data, size_t) override {
    const std::lock_guard lock(mutex_);
    change(*region_of(address(data)), 1);
    return data;
  }
  void close(std::byte* data, size_t) noexcept override {
    const std::lock_guard lock(mutex_);
    change(*region_of(address(data)), -1);
  }
  // For an op.
  void change_all(int by) {
    const std::lock_guard lock(mutex_);
    ops_ += by;
    for (auto& region : regions_)
      change(region, by);
  }

 private:
  static constexpr uintptr_t kPage = 4096;
  struct Region {
    size_t size = 0;
    int protection = PROT_NONE;  // when it is open
    int opened = 0;
    int owners = 0;  // of a file's: tensors in it
  };
  using Regions = std::map<uintptr_t, Region>;

  static uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }
  static void* pointer(uintptr_t p) { return reinterpret_cast<void*>(p); }
  static uintptr_t pages(uintptr_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  void add(uintptr_t begin, size_t size, int protection) {
    Region& region = regions_[begin];
    region = {.size = size, .protection = protection, .opened = ops_};
    mprotect(pointer(begin), size, ops_ > 0 ? protection : PROT_NONE);
  }
  Regions::iterator region_of(uintptr_t p) {
    const auto next = regions_.upper_bound(p);
    if (next == regions_.begin() || std::prev(next)->first + std::prev(next)->second.size <= p) std::abort();
    return std::prev(next);
  }
  static void change(std::pair<const uintptr_t, Region>& entry, int by) {
    Region& region = entry.second;
    const bool was_open = region.opened > 0;
    region.opened += by;
    if (was_open != (region.opened > 0))
      mprotect(pointer(entry.first), region.size, was_open ? PROT_NONE : region.protection);
  }

  std::mutex mutex_;
  Regions regions_;
  int ops_ = 0;  // under way
};

inline GuardedMemory& guarded_memory() {
  static auto* const memory = new GuardedMemory;  // outlives whatever static objects hold
  return *memory;
}

// The entries of another table, during which the guarded memory is open.
struct GuardedKernels : KernelTable {
  explicit GuardedKernels(const KernelTable& table) : KernelTable(table), inner(table) {
#define GPT_GUARD_OP(name, Args)                                       \
  name = [](const ExecContext& ctx, const Args& args) noexcept {       \
    const auto& own = static_cast<const GuardedKernels&>(ctx.kernels); \
    guarded_memory().change_all(1);                                    \
    own.inner.name({ctx.pool, own.inner, ctx.scratch}, args);          \
    guarded_memory().change_all(-1);                                   \
  };
    GPT_FOR_EACH_OP(GPT_GUARD_OP)
#undef GPT_GUARD_OP
  }
  const KernelTable& inner;
};

inline Memory* memory() {
  return is_guarded() ? &guarded_memory() : nullptr;
}

inline const KernelTable& kernels(Isa isa) {
  if (!is_guarded()) return kernel_table(isa);
  static const GuardedKernels tables[] = {
      GuardedKernels(kernel_table(Isa::ref)), GuardedKernels(kernel_table(Isa::avx2)),
      GuardedKernels(kernel_table(Isa::avx512)), GuardedKernels(kernel_table(Isa::avx512bf16)),
      GuardedKernels(kernel_table(Isa::amx))};
  return tables[static_cast<size_t>(isa)];
}

inline Backend backend(ThreadPool& pool, Isa isa) {
  return {pool, kernels(isa), memory()};
}

}  // namespace gpt::test
