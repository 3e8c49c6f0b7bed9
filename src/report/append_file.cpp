#include "report/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace gpt {

AppendFile::AppendFile(const std::string& path, Mode mode) : path_(path) {
  const int extra = mode == Mode::empty ? O_TRUNC : mode == Mode::must_be_new ? O_EXCL : 0;
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | extra, 0644);
  if (fd_ < 0) fail("cannot write {}: {}", path, std::strerror(errno));
}

AppendFile::~AppendFile() {
  close(fd_);
}

void AppendFile::append(std::string_view record) {
  const off_t size_before = lseek(fd_, 0, SEEK_END);
  for (size_t done = 0; done < record.size();) {
    const ssize_t n = ::write(fd_, record.data() + done, record.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = n < 0 ? errno : ENOSPC;
      const bool intact = done == 0 || (size_before >= 0 && ftruncate(fd_, size_before) == 0);
      fail("cannot write {}: {}{}; free some space or choose another place", path_, std::strerror(error),
           intact ? "" : " (its last record is incomplete)");
    }
    done += static_cast<size_t>(n);
  }
}

void AppendFile::sync() {
  if (fsync(fd_) != 0 && errno != EINVAL) fail("cannot write {}: {}", path_, std::strerror(errno));
}

}  // namespace gpt
