#include "tensor/device.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"

namespace gpt {
namespace {

// Returns the physical memory of this machine in bytes. Linux grants allocations beyond this size, but kills
// the process when it uses the memory.
size_t physical_memory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

std::byte* Device::map(std::span<const std::byte> host) {
  std::byte* const data = allocate(host.size(), "a memory-mapped file");
  upload(data, host.data(), {.width = host.size(), .rows = 1});
  return data;
}

void Device::download(std::byte* to, const std::byte* from, const Rows2d& rows) {
  enqueue_download(to, from, rows);
  synchronize();
}

void Device::wait(const DeviceEvent& event) {
  do_wait(event);
  require_no_error();
}

void Device::set_error(const OpError& error) noexcept {
  const char* none = nullptr;
  if (failed_op_.compare_exchange_strong(none, error.op)) failed_condition_ = error.what;
}

void Device::require_no_error() const {
  const char* const op = failed_op_;
  if (op == nullptr) return;
  const char* const condition = failed_condition_;
  fail("internal error: op {}: check failed: {}; please report this", op,
       condition != nullptr ? condition : "unknown condition");
}

std::byte* HostDevice::allocate(size_t bytes, const char* what) {
  void* p = bytes > physical_memory()
                ? MAP_FAILED
                : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    fail_memory(
        "not enough memory for {}: cannot allocate {}; use a smaller model, batch or context (gpt plan "
        "estimates the memory for training)",
        what, format_bytes(static_cast<double>(bytes)));
  }
  if (bytes >= 2 * kLargePage) madvise(p, bytes, MADV_HUGEPAGE);  // fewer TLB misses; only a hint
  return static_cast<std::byte*>(p);
}

void HostDevice::release(std::byte* data, size_t bytes) noexcept {
  munmap(data, bytes);
}

void HostDevice::copy(std::byte* to, const std::byte* from, const Rows2d& r) {
  for (size_t row = 0; row < r.rows; ++row)
    std::memcpy(to + row * r.to_pitch, from + row * r.from_pitch, r.width);
}

size_t extent(const TensorView& view) {
  if (!view || view.size() == 0) return 0;
  const int64_t lines = view.transposed ? view.cols() : view.rows(), line = view.size() / lines;
  return static_cast<size_t>(row_bytes(view.dtype, (lines - 1) * view.ld) + row_bytes(view.dtype, line));
}

namespace {

// The memory layout of a view: `count` contiguous lines of `width` bytes. A line is a row, or a column of a
// transposed view.
struct Lines {
  size_t count, width, pitch;
};
Lines lines_of(const TensorView& v) {
  const int64_t count = v.size() == 0 ? 0 : v.transposed ? v.cols() : v.rows();
  if (count == 0) return {};
  return {static_cast<size_t>(count), static_cast<size_t>(row_bytes(v.dtype, v.size() / count)),
          static_cast<size_t>(row_bytes(v.dtype, v.ld))};
}

}  // namespace

MappedView::MappedView(const TensorView& view, Access access) : device_(view), host_(view), access_(access) {
  if (view.device == nullptr) return;
  const Lines lines = lines_of(view);
  const size_t bytes = lines.count * lines.width;
  // A copy that is not downloaded starts with zeros, so that its upload is always defined.
  copy_ = access == Access::write ? std::make_unique<std::byte[]>(bytes)
                                  : std::make_unique_for_overwrite<std::byte[]>(bytes);
  host_.data = copy_.get();
  host_.device = nullptr;
  host_.ld = view.transposed ? view.rows() : view.cols();
  if (lines.count == 0 || access == Access::write) return;
  view.device->download(
      copy_.get(), view.as<std::byte>(),
      {.width = lines.width, .rows = lines.count, .to_pitch = lines.width, .from_pitch = lines.pitch});
}

MappedView::~MappedView() {
  const Lines lines = lines_of(device_);
  if (copy_ == nullptr || lines.count == 0 || access_ == Access::read) return;
  try {
    device_.device->upload(
        device_.as<std::byte>(), copy_.get(),
        {.width = lines.width, .rows = lines.count, .to_pitch = lines.pitch, .from_pitch = lines.width});
  } catch (const std::exception&) {
    device_.device->set_error({.op = "upload", .what = "enough memory for the copy"});
  }
}

void copy_elements(const TensorView& from, const TensorView& to) {
  enqueue_copy(from, to);
  if (from.device != nullptr && to.device == nullptr) from.device->synchronize();
}

void enqueue_copy(const TensorView& from, const TensorView& to) {
  GPT_ASSERT(from.dtype == to.dtype && from.rows() == to.rows() && from.cols() == to.cols());
  GPT_ASSERT(from.transposed == to.transposed);
  const Lines source = lines_of(from), target = lines_of(to);
  const Rows2d rows{
      .width = source.width, .rows = source.count, .to_pitch = target.pitch, .from_pitch = source.pitch};
  auto* const out = to.as<std::byte>();
  const auto* const in = from.as<std::byte>();
  if (to.device == nullptr && from.device == nullptr) {
    HostDevice().copy(out, in, rows);
  } else if (to.device == nullptr) {
    from.device->enqueue_download(out, in, rows);
  } else if (from.device == nullptr) {
    to.device->upload(out, in, rows);
  } else {
    GPT_ASSERT(to.device == from.device);
    to.device->copy(out, in, rows);
  }
}

}  // namespace gpt
