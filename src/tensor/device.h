#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include "tensor/buffer.h"
#include "tensor/device_span.h"
#include "tensor/tensor.h"

namespace gpt {

// How the host accesses device data.
enum class Access : uint8_t { read, write, read_write };

// The size of a 2D copy: `rows` rows of `width` bytes. The pitch is the distance in bytes between the starts
// of two rows.
struct Rows2d {
  size_t width = 0, rows = 0;
  size_t to_pitch = 0, from_pitch = 0;
};

// A position in the op queue of a device. The event completes after all work that was enqueued before it.
struct DeviceEvent {
  uint64_t ticket = 0;
};

// The first op that failed on a device. The error is stored instead of thrown, because an op may run long
// after its call has returned.
struct OpError {
  const char* op = nullptr;    // name of the op, such as "linear_forward"
  const char* what = nullptr;  // the condition that was violated
};

// A device that runs ops. The device owns its memory and an op queue. Transfers and ops run in the order in
// which they were enqueued. Thread-safe. Calls from the same thread keep their order.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Returns true if ops access host memory directly and are complete when they return. Such a device needs no
  // transfers.
  virtual bool is_host() const { return false; }

  // Returns zero-initialized, page-aligned memory. Throws Error naming `what` if there is not enough memory.
  virtual std::byte* allocate(size_t bytes, const char* what) = 0;
  // Frees memory after all work in the queue has run.
  virtual void release(std::byte* data, size_t bytes) noexcept = 0;
  // Makes host data, such as a memory-mapped file, readable for ops. Returns a copy of the data on the
  // device, or the data itself if the device can read host memory. `host` must not change until `unmap` is
  // called.
  virtual std::byte* map(std::span<const std::byte> host);
  virtual void unmap(std::byte* data, std::span<const std::byte> host) noexcept {
    release(data, host.size());
  }

  // Enqueues a copy of host data to the device. The caller may modify `from` as soon as the call returns.
  virtual void upload(std::byte* to, const std::byte* from, const Rows2d& rows) = 0;
  // Enqueues a copy of device data to the host. An event recorded after this call marks the completion of the
  // copy. Until the copy is complete, `to` must stay valid and must not be accessed.
  virtual void enqueue_download(std::byte* to, const std::byte* from, const Rows2d& rows) = 0;
  // Copies device data to the host and waits for the copy to complete. Throws Error if an op has failed.
  void download(std::byte* to, const std::byte* from, const Rows2d& rows);
  // Enqueues a copy between two non-overlapping regions of device memory.
  virtual void copy(std::byte* to, const std::byte* from, const Rows2d& rows) = 0;
  // Returns an event that marks the current end of the queue.
  virtual DeviceEvent record() = 0;
  // Waits until all work enqueued before the event has run. Throws Error if an op has failed.
  void wait(const DeviceEvent& event);
  void synchronize() { wait(record()); }

  // Called by an op that fails. Stores the error permanently; later errors are ignored.
  void set_error(const OpError& error) noexcept;
  // Throws Error if an op has failed.
  void require_no_error() const;
  // Called by an op that falls back to its scalar reference because no kernel supports its arguments. Tests
  // count these calls.
  virtual void on_fallback(const char* /*op*/) noexcept {}

 protected:
  virtual void do_wait(const DeviceEvent& event) = 0;

 private:
  std::atomic<const char*> failed_op_ = nullptr, failed_condition_ = nullptr;
};

// The host as a device. This device has no queue, because ops and copies are complete when they return.
class HostDevice : public Device {
 public:
  bool is_host() const override { return true; }
  std::byte* allocate(size_t bytes, const char* what) override;
  void release(std::byte* data, size_t bytes) noexcept override;
  std::byte* map(std::span<const std::byte> host) override { return const_cast<std::byte*>(host.data()); }
  void unmap(std::byte*, std::span<const std::byte>) noexcept override {}
  void upload(std::byte* to, const std::byte* from, const Rows2d& rows) override { copy(to, from, rows); }
  void enqueue_download(std::byte* to, const std::byte* from, const Rows2d& rows) override {
    copy(to, from, rows);
  }
  void copy(std::byte* to, const std::byte* from, const Rows2d& rows) override;
  DeviceEvent record() override { return {}; }

 private:
  void do_wait(const DeviceEvent&) override {}
};

// Returns the number of bytes from the first element of a view to the end of its last element.
size_t extent(const TensorView& view);

// Provides host access to a tensor view for the lifetime of this object. If the view is already in host
// memory, it is used directly. For device memory, the constructor downloads a copy for reading and the
// destructor uploads the copy after writing, as `access` requires. The rows of the copy are dense.
class MappedView {
 public:
  MappedView(const TensorView& view, Access access);
  ~MappedView();
  MappedView(const MappedView&) = delete;
  MappedView& operator=(const MappedView&) = delete;

  const TensorView& operator*() const { return host_; }
  const TensorView* operator->() const { return &host_; }

 private:
  TensorView device_, host_;
  Access access_;
  std::unique_ptr<std::byte[]> copy_;
};

// Copies the elements of a view to a view with the same dtype, rows and columns. Each view may be on the host
// or on a device. A copy from a device to the host is complete when the function returns.
void copy_elements(const TensorView& from, const TensorView& to);
// Enqueues the same copy as copy_elements without waiting for it (see Device::enqueue_download).
void enqueue_copy(const TensorView& from, const TensorView& to);

// Makes a host array accessible to ops. Ops that can read host memory use the array itself. All other ops use
// a copy in device memory. The memory of the copy is reused, and is reallocated only for a longer array.
template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // device: the device that runs the ops, or null for the host.
  explicit DeviceArray(Device* device = nullptr) : device_(on_device(device)) {}

  // Allocates device memory for a copy of n elements. Does nothing on the host.
  void reserve(size_t n) {
    if (device_ != nullptr && n * sizeof(T) > copy_.size())
      copy_ = Buffer(n * sizeof(T), "a copy in device memory", device_);
  }
  // Uploads the array to the device. `host` must stay valid until all ops that read the array have run. On
  // the host device, ops read `host` directly, so the values must also stay unchanged.
  DeviceSpan<const T> upload(std::span<const T> host) {
    if (device_ == nullptr) return {host.data(), host.size()};
    reserve(host.size());
    device_->upload(copy_.data(), reinterpret_cast<const std::byte*>(host.data()), rows(host.size()));
    return {copy_.template as<T>(), host.size()};
  }
  // Makes an array available to ops that write it. Uploads the array first unless `access` is Access::write.
  DeviceSpan<T> share(std::span<T> host, Access access = Access::read_write) {
    if (device_ == nullptr) return {host.data(), host.size()};
    reserve(host.size());
    if (access != Access::write)
      device_->upload(copy_.data(), reinterpret_cast<const std::byte*>(host.data()), rows(host.size()));
    return {copy_.template as<T>(), host.size()};
  }
  // Enqueues a copy of the last shared array back to the host (see Device::enqueue_download). Does nothing on
  // the host device, because ops wrote directly to the array.
  void enqueue_download(std::span<T> host) const {
    if (device_ == nullptr) return;
    device_->enqueue_download(reinterpret_cast<std::byte*>(host.data()), copy_.data(), rows(host.size()));
  }
  // Copies the last shared array back to the host and waits for the copy.
  void download(std::span<T> host) const {
    if (device_ == nullptr) return;
    device_->download(reinterpret_cast<std::byte*>(host.data()), copy_.data(), rows(host.size()));
  }

 private:
  static Device* on_device(Device* device) {
    return device != nullptr && device->is_host() ? nullptr : device;
  }
  static Rows2d rows(size_t n) { return {.width = n * sizeof(T), .rows = 1}; }

  Device* device_;
  Buffer copy_;
};

}  // namespace gpt
