#pragma once

// Where tests run models: the program's own backend, or with GPT_GUARDED=1 in the environment one whose
// memory only ops and MappedView can touch.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>

#include "kernels/backend.h"
#include "support/isas.h"
#include "tensor/memory.h"

namespace gpt::test {

// Memory that is PROT_NONE unless somebody has opened it: one reserved range, so that an op opens it with one
// call, and the weights of mapped files, which become part of it.
class GuardedMemory : public DeviceAllocator {
 public:
  GuardedMemory() {
    void* const p = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("mmap failed");
    begin_ = end_ = address(p);
  }
  std::byte* allocate(size_t bytes, const char*) override {
    const size_t size = pages(std::max<size_t>(bytes, 1));
    const std::lock_guard lock(mutex_);
    const uintptr_t begin = gap_of(size);
    if (begin + size > begin_ + kReserved) throw std::runtime_error("the guarded memory is full");
    end_ = std::max(end_, begin + size);
    protect(add(begin, size, PROT_READ | PROT_WRITE));
    return static_cast<std::byte*>(pointer(begin));
  }
  void release(std::byte* data, size_t) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto at = regions_.find(address(data));
    mprotect(data, at->second.size, PROT_NONE);
    madvise(data, at->second.size, MADV_DONTNEED);
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
    const auto at = add(begin, end - begin, PROT_READ);
    at->second.owners = owners;
    protect(at);
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
    const auto at = region_of(address(data));
    if (at->second.opened++ == 0) protect(at);
    return data;
  }
  void close(std::byte* data, size_t) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto at = region_of(address(data));
    if (--at->second.opened == 0) protect(at);
  }
  void begin_op() {
    const std::lock_guard lock(mutex_);
    if (ops_++ == 0) protect_all();
  }
  void end_op() {
    const std::lock_guard lock(mutex_);
    if (--ops_ == 0) protect_all();
  }

 private:
  static constexpr uintptr_t kPage = 4096;
  static constexpr size_t kReserved = size_t{1} << 38;
  struct Region {
    size_t size = 0;
    int protection = PROT_NONE;  // when it is open
    int opened = 0;              // by MappedView
    int owners = 0;              // of a file's: tensors in it
  };
  using Regions = std::map<uintptr_t, Region>;

  static uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }
  static void* pointer(uintptr_t p) { return reinterpret_cast<void*>(p); }
  static uintptr_t pages(uintptr_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  // The first place of that size between the regions of the reserved range.
  uintptr_t gap_of(size_t size) const {
    uintptr_t begin = begin_;
    for (auto at = regions_.lower_bound(begin_); at != regions_.end() && at->first < begin + size; ++at)
      begin = at->first + at->second.size;
    return begin;
  }
  Regions::iterator add(uintptr_t begin, size_t size, int protection) {
    return regions_.insert_or_assign(begin, Region{.size = size, .protection = protection}).first;
  }
  Regions::iterator region_of(uintptr_t p) {
    const auto next = regions_.upper_bound(p);
    if (next == regions_.begin() || std::prev(next)->first + std::prev(next)->second.size <= p) std::abort();
    return std::prev(next);
  }
  void protect(Regions::iterator at) const {
    const bool open = ops_ > 0 || at->second.opened > 0;
    mprotect(pointer(at->first), at->second.size, open ? at->second.protection : PROT_NONE);
  }
  void protect_all() {
    mprotect(pointer(begin_), end_ - begin_, ops_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
    for (auto at = regions_.begin(); at != regions_.end(); ++at)
      if (at->second.owners > 0 || at->second.opened > 0) protect(at);
  }

  std::mutex mutex_;
  Regions regions_;
  uintptr_t begin_ = 0, end_ = 0;  // of the reserved range, as far as it was used
  int ops_ = 0;                    // under way
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
    guarded_memory().begin_op();                                       \
    own.inner.name({ctx.pool, own.inner, ctx.scratch}, args);          \
    guarded_memory().end_op();                                         \
  };
    GPT_FOR_EACH_OP(GPT_GUARD_OP)
#undef GPT_GUARD_OP
  }
  const KernelTable& inner;
};

inline DeviceAllocator* memory() {
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
