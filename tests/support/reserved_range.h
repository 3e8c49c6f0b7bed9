#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <stdexcept>

namespace gpt::test {

// A range of addresses that code cannot access. Simulates the memory of a device.
class ReservedRange {
 public:
  explicit ReservedRange(size_t bytes) : bytes_(bytes) {
    void* const p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("mmap failed");
    begin_ = static_cast<std::byte*>(p);
  }
  ~ReservedRange() { munmap(begin_, bytes_); }
  ReservedRange(const ReservedRange&) = delete;
  ReservedRange& operator=(const ReservedRange&) = delete;

  std::byte* begin() const { return begin_; }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_;
  std::byte* begin_;
};

}  // namespace gpt::test
