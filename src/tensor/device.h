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

// The size of a 2D copy in bytes: `rows` rows of `width` bytes, with the row strides of both sides.
struct Rows2d {
  size_t width = 0, rows = 0;
  size_t to_pitch = 0, from_pitch = 0;
};

// A position in the op queue of a device, after everything enqueued so far.
struct DeviceEvent {
  uint64_t ticket = 0;
};

// The first failure of an op. Ops cannot throw, because they may run long after the call.
struct OpError {
  const char* op = nullptr;    // "linear_forward"
  const char* what = nullptr;  // the condition that did not hold
};

// A device that runs ops. Owns memory and an op queue, in which transfers and ops run in the order of the
// calls. Thread-safe; calls of one thread keep their order.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Returns whether ops access host memory directly and are complete when they return, so that no transfers
  // are needed.
  virtual bool is_host() const { return false; }

  // Returns zeroed, page-aligned memory. Throws Error naming `what` if memory is short.
  virtual std::byte* allocate(size_t bytes, const char* what) = 0;
  // Frees memory once everything in the queue has run.
  virtual void release(std::byte* data, size_t bytes) noexcept = 0;
  // Makes host data, such as a mapped file, readable for ops. Returns a copy, or the data itself if the
  // device can read it directly. `host` must not change until `unmap`.
  virtual std::byte* map(std::span<const std::byte> host);
  virtual void unmap(std::byte* data, std::span<const std::byte> host) noexcept {
    release(data, host.size());
  }

  // Queues a copy of host data to the device. `from` may change once the call has returned.
  virtual void upload(std::byte* to, const std::byte* from, const Rows2d& rows) = 0;
  // Queues a copy of device data to the host. An event recorded after the call marks its completion. Until
  // then, `to` must stay valid and must not be accessed.
  virtual void enqueue_download(std::byte* to, const std::byte* from, const Rows2d& rows) = 0;
  // Copies device data to the host and waits for the copy. Throws Error if an op has failed.
  void download(std::byte* to, const std::byte* from, const Rows2d& rows);
  // Queues a copy between two non-overlapping regions of the device.
  virtual void copy(std::byte* to, const std::byte* from, const Rows2d& rows) = 0;
  // Returns an event at the end of the queue.
  virtual DeviceEvent record() = 0;
  // Waits until everything before the event has run. Throws Error if an op has failed.
  void wait(const DeviceEvent& event);
  void synchronize() { wait(record()); }

  // Sets the sticky error; keeps the first one. Called by ops.
  void set_error(const OpError& error) noexcept;
  // Throws Error if an op has failed.
  void require_no_error() const;
  // Called by an op that runs its scalar reference because no kernel supports its arguments. Tests count it.
  virtual void on_fallback(const char* /*op*/) noexcept {}

 protected:
  virtual void do_wait(const DeviceEvent& event) = 0;

 private:
  std::atomic<const char*> failed_op_ = nullptr, failed_condition_ = nullptr;
};

// The host as a device. Needs no queue: ops and copies are complete when they return.
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

// Returns the bytes from the first element of a view to the end of its last element.
size_t extent(const TensorView& view);

// Maps a view into host memory while it lives. A view in host memory is used directly. For device memory, the
// constructor downloads a copy and the destructor uploads it, as `access` requires. Rows of the copy are
// dense.
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

// Copies a view to a view of the same dtype, rows and columns. Each may be on the host or on a device. The
// host waits if `to` is on the host and `from` is not.
void copy_elements(const TensorView& from, const TensorView& to);
// The same without waiting (see Device::enqueue_download).
void enqueue_copy(const TensorView& from, const TensorView& to);

// Makes a host array accessible to ops: the array itself if ops read host memory, else a copy on the device.
// Reuses its memory: only an array longer than all before allocates.
template <class T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // device: null for the host.
  explicit DeviceArray(Device* device = nullptr) : device_(on_device(device)) {}

  // Allocates memory for a copy of n elements, if the device needs a copy.
  void reserve(size_t n) {
    if (device_ != nullptr && n * sizeof(T) > copy_.size())
      copy_ = Buffer(n * sizeof(T), "a copy for ops", device_);
  }
  // Uploads the array. `host` must stay valid, and on the host device unchanged, until the ops that read it
  // have run.
  DeviceSpan<const T> upload(std::span<const T> host) {
    if (device_ == nullptr) return {host.data(), host.size()};
    reserve(host.size());
    device_->upload(copy_.data(), reinterpret_cast<const std::byte*>(host.data()), rows(host.size()));
    return {copy_.template as<T>(), host.size()};
  }
  // The same for an array that ops also write. With Access::write, nothing is uploaded.
  DeviceSpan<T> share(std::span<T> host, Access access = Access::read_write) {
    if (device_ == nullptr) return {host.data(), host.size()};
    reserve(host.size());
    if (access != Access::write)
      device_->upload(copy_.data(), reinterpret_cast<const std::byte*>(host.data()), rows(host.size()));
    return {copy_.template as<T>(), host.size()};
  }
  // Queues a copy of the last shared array to the host (Device::enqueue_download). Does nothing on the host
  // device, where ops wrote the array itself.
  void enqueue_download(std::span<T> host) const {
    if (device_ == nullptr) return;
    device_->enqueue_download(reinterpret_cast<std::byte*>(host.data()), copy_.data(), rows(host.size()));
  }
  // The same, and waits for the copy.
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
