#include "base/shared_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace gpt {
namespace {

[[noreturn]] void fail_writing(const std::string& path, int error) {
  fail("cannot write {}: {}", path, std::strerror(error));
}

}  // namespace

SharedFile::SharedFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW)) {
  if (fd_ < 0) fail_writing(path_, errno);
}

SharedFile::~SharedFile() {
  ::close(fd_);
}

void SharedFile::extend(uint64_t size) {
  const auto length = static_cast<off_t>(size);
  const int error = ::posix_fallocate(fd_, 0, length);
  if (error == 0) return;
  if (error != EINVAL && error != EOPNOTSUPP) fail_writing(path_, error);
  if (::ftruncate(fd_, length) != 0) fail_writing(path_, errno);
}

void SharedFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_writing(path_, n < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void SharedFile::sync() {
  if (::fsync(fd_) != 0) fail_writing(path_, errno);
}

}  // namespace gpt
