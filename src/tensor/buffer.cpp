#include "tensor/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "tensor/memory.h"

namespace gpt {
namespace {

// Linux grants more than there is; asking for more than the machine has can only end in a kill.
size_t physical_memory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Buffer::Buffer(size_t bytes, const char* what, DeviceAllocator* memory) : size_(bytes), memory_(memory) {
  if (bytes == 0) return;
  if (memory != nullptr) {
    data_ = memory->allocate(bytes, what);
    return;
  }
  void* p = bytes > physical_memory()
                ? MAP_FAILED
                : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    fail(
        "not enough memory for {}: {} refused; use a smaller model, batch or context (of a training gpt plan "
        "says what fits)",
        what, format_bytes(static_cast<double>(bytes)));
  }
  if (bytes >= 2 * kLargePage) madvise(p, bytes, MADV_HUGEPAGE);  // fewer TLB misses; a hint only
  data_ = static_cast<std::byte*>(p);
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  if (memory_ != nullptr) {
    memory_->release(data_, size_);
  } else {
    munmap(data_, size_);
  }
}

void Buffer::drop(int64_t offset, int64_t bytes) const {
  if (memory_ != nullptr) return;
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
  std::swap(memory_, other.memory_);
  return *this;
}

TensorView Buffer::view(int64_t offset, DType dtype, std::span<const int64_t> shape) const {
  TensorView v = make_view(data_ + offset, dtype, shape);
  v.memory = memory_;
  return v;
}

TensorView Buffer::grow(DType dtype, std::span<const int64_t> shape, const char* what,
                        DeviceAllocator* memory) {
  const auto bytes = static_cast<size_t>(make_view(nullptr, dtype, shape).size()) * dtype_size(dtype);
  if (bytes > size_) *this = Buffer(bytes, what, memory);
  return view(0, dtype, shape);
}

}  // namespace gpt
