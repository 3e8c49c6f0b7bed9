#include "tensor/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "tensor/device.h"

namespace gpt {

Buffer::Buffer(size_t bytes, const char* what, Device* device)
    : size_(bytes), device_(device != nullptr && device->is_host() ? nullptr : device) {
  if (bytes == 0) return;
  data_ = device_ != nullptr ? device_->allocate(bytes, what) : HostDevice().allocate(bytes, what);
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (device_ != nullptr) {
    device_->release(data_, size_);
  } else {
    HostDevice().release(data_, size_);
  }
}

void Buffer::drop(int64_t offset, int64_t bytes) const {
  if (device_ != nullptr) return;
  static const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  const int64_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
  if (begin < end) madvise(data_ + begin, static_cast<size_t>(end - begin), MADV_DONTNEED);
}

Buffer::Buffer(Buffer&& other) noexcept {
  *this = std::move(other);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  return *this;
}

TensorView Buffer::view(int64_t offset, DType dtype, std::span<const int64_t> shape) const {
  return make_view(data_ + offset, dtype, shape, device_);
}

TensorView Buffer::grow(DType dtype, std::span<const int64_t> shape, const char* what, Device* device) {
  const auto bytes = static_cast<size_t>(make_view(nullptr, dtype, shape).size()) * dtype_size(dtype);
  if (bytes > size_) *this = Buffer(bytes, what, device);
  return view(0, dtype, shape);
}

}  // namespace gpt
