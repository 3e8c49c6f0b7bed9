#include "base/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace gpt {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = open_regular_file(path);
  stamp_ = file_stamp(fd);
  size_ = stamp_.bytes;
  if (size_ > 0) {
    void* p = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      const int error = errno;
      close(fd);
      fail("cannot map {} ({} bytes): {}", path, size_, std::strerror(error));
    }
    data_ = static_cast<const std::byte*>(p);
  }
  close(fd);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::prefer_large_pages() const {
  if (data_ != nullptr) madvise(const_cast<std::byte*>(data_), size_, MADV_HUGEPAGE);
}

void MappedFile::release(std::span<const std::byte> part) const {
  if (part.empty() || part.data() < data_ || part.data() + part.size() > data_ + size_) return;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = static_cast<size_t>(part.data() - data_) / page * page;
  const size_t end = static_cast<size_t>(part.data() - data_) + part.size();
  madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(stamp_, other.stamp_);
  return *this;
}

}  // namespace gpt
