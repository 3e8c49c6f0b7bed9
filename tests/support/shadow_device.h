#pragma once

// A simulated device that exposes incorrect use of devices without a GPU. Only queued ops and transfers can
// access its memory, which is a separate address range. Any other read or write causes a segmentation fault.
// Ops are queued with copies of their arguments and run later, in order. An argument that is freed too early,
// or a result that the host reads too early, therefore shows up as a wrong result. Every pointer in the
// arguments of an op must point to allocated device memory.

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "support/op_pointers.h"
#include "support/reserved_range.h"

namespace gpt::test {

class ShadowDevice final : public Device {
 public:
  std::byte* allocate(size_t bytes, const char*) override {
    // The additional page keeps adjacent allocations apart, so that an access past the end of one is an
    // error.
    const size_t size = (bytes + kPage - 1) / kPage * kPage + kPage;
    const std::lock_guard lock(mutex_);
    const uintptr_t begin = gap_of(size);
    if (begin + size > begin_ + range_.size())
      throw std::runtime_error("the memory of the shadow device is full");
    end_ = std::max(end_, begin + size);
    regions_[begin] = size;
    return static_cast<std::byte*>(pointer(begin));
  }
  void release(std::byte* data, size_t) noexcept override {
    enqueue([this, data] {
      madvise(data, regions_.at(address(data)), MADV_DONTNEED);
      regions_.erase(address(data));
    });
  }

  void upload(std::byte* to, const std::byte* from, const Rows2d& r) override {
    std::vector<std::byte> bytes(r.width * r.rows);
    for (size_t row = 0; row < r.rows; ++row)
      std::memcpy(bytes.data() + row * r.width, from + row * r.from_pitch, r.width);
    enqueue([to, r, bytes = std::move(bytes)] {
      for (size_t row = 0; row < r.rows; ++row)
        std::memcpy(to + row * r.to_pitch, bytes.data() + row * r.width, r.width);
    });
  }
  void enqueue_download(std::byte* to, const std::byte* from, const Rows2d& r) override { copy(to, from, r); }
  void copy(std::byte* to, const std::byte* from, const Rows2d& r) override {
    enqueue([to, from, r] { HostDevice().copy(to, from, r); });
  }
  DeviceEvent record() override {
    const std::lock_guard lock(mutex_);
    return {completed_ + queue_.size()};
  }

  // Queues `work`, which runs after all work that is already queued. The work runs when the host waits for a
  // later event or when the queue is full.
  void enqueue(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    if (queue_.size() >= kLongest) run_until(completed_ + queue_.size());
  }
  // Return the number of queued ops and transfers that have not run yet, and the number of waits for work
  // that had not run yet.
  size_t pending() const {
    const std::lock_guard lock(mutex_);
    return queue_.size();
  }
  size_t waits() const {
    const std::lock_guard lock(mutex_);
    return waits_;
  }
  // Aborts if [p, p + bytes) is not in allocated memory.
  void require(const char* op, std::string_view field, const void* p, size_t bytes) const {
    if (p == nullptr || bytes == 0) return;
    const std::lock_guard lock(mutex_);
    const auto next = regions_.upper_bound(address(p));
    if (next != regions_.begin()) {
      const auto& [begin, size] = *std::prev(next);
      if (address(p) + bytes <= begin + size - kPage) return;
    }
    std::fprintf(stderr, "shadow device: %s: %.*s is not in its memory\n", op, static_cast<int>(field.size()),
                 field.data());
    std::abort();
  }
  ThreadPool& pool() { return pool_; }

 private:
  static constexpr uintptr_t kPage = 4096;
  static constexpr size_t kLongest = 512;  // maximum number of queued entries

  static uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }
  static void* pointer(uintptr_t p) { return reinterpret_cast<void*>(p); }

  void do_wait(const DeviceEvent& event) override {
    const std::lock_guard lock(mutex_);
    if (completed_ < event.ticket) ++waits_;
    run_until(event.ticket);
  }
  // Runs the queued work up to the event with this ticket. A ticket is the number of entries queued before
  // the event.
  void run_until(uint64_t ticket) {
    mprotect(pointer(begin_), end_ - begin_, PROT_READ | PROT_WRITE);
    for (; completed_ < ticket; ++completed_) {
      queue_.front()();
      queue_.pop_front();
    }
    mprotect(pointer(begin_), end_ - begin_, PROT_NONE);
  }

  // Returns the lowest address where `size` bytes fit between the allocated regions.
  uintptr_t gap_of(size_t size) const {
    uintptr_t begin = begin_;
    for (auto at = regions_.lower_bound(begin_); at != regions_.end() && at->first < begin + size; ++at)
      begin = at->first + at->second;
    return begin;
  }

  mutable std::recursive_mutex mutex_;
  std::map<uintptr_t, size_t> regions_;
  std::deque<std::function<void()>> queue_;
  uint64_t completed_ = 0;  // number of queued entries that have run
  size_t waits_ = 0;
  ReservedRange range_{size_t{1} << 38};
  uintptr_t begin_ = address(range_.begin()), end_ = begin_;  // the range of addresses used so far
  ThreadPool pool_{1};  // scratch memory is sized for at least one thread
};

inline ShadowDevice& shadow_device() {
  static auto* const device = new ShadowDevice;  // never destroyed: static objects may still hold its memory
  return *device;
}

// A kernel table that queues the ops of another table on the shadow device.
struct ShadowKernels : KernelTable {
  explicit ShadowKernels(const KernelTable& table) : KernelTable(table), inner(table) {
#define GPT_SHADOW_OP(op, Args)                                                      \
  op = [](const ExecContext& ctx, const Args& args) noexcept {                       \
    const KernelTable& inner = static_cast<const ShadowKernels&>(ctx.kernels).inner; \
    OwnedArgs<Args> own(args);                                                       \
    require_pointers(#op, inner, own);                                               \
    shadow_device().enqueue([&inner, scratch = ctx.scratch, own = std::move(own)] {  \
      inner.op({shadow_device(), shadow_device().pool(), inner, scratch}, *own);     \
    });                                                                              \
  };
    GPT_FOR_EACH_OP(GPT_SHADOW_OP)
#undef GPT_SHADOW_OP
  }
  const KernelTable& inner;

 private:
  template <class Args>
  static void require_pointers(const char* op, const KernelTable& kernels, OwnedArgs<Args>& args) {
    args.for_each([&](std::string_view name, auto& pointer) {
      shadow_device().require(op, name, address_of(pointer), reach(kernels, pointer));
    });
  }
};

// Runs an op with arguments in host memory on the shadow device. Copies the memory that is
// reachable from the arguments to the device before the op, and back afterwards.
template <class Args>
void run_on_shadow(const KernelTable& kernels,
                   void (*KernelTable::*op)(const ExecContext&, const Args&) noexcept, const Args& args,
                   ScratchNeed need) {
  ShadowDevice& device = shadow_device();
  const ShadowKernels shadow(kernels);
  const Workspace workspace(need, 1, &device);
  const auto to_device = [&](std::byte* to, const std::byte* from, size_t n) {
    device.upload(to, from, {.width = n, .rows = 1});
  };
  const auto to_host = [&](std::byte* to, const std::byte* from, size_t n) {
    device.download(to, from, {.width = n, .rows = 1});
  };
  run_on_copies(kernels, args, &device, to_device, to_host, [&](const Args& moved) {
    (shadow.*op)({device, device.pool(), shadow, workspace.scratch()}, moved);
  });
}

}  // namespace gpt::test
