#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace gpt {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

void write_all(int fd, const char* data, size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      fail("cannot write {}: {}; free some space or choose another place", path,
           n < 0 ? std::strerror(errno) : "no space left");
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
}

// Two processes that write one file would write into one temporary file. The lock ends with the process; a
// file that a killed one left is written over. Where there are no locks it goes on without.
class TemporaryLock {
 public:
  TemporaryLock(const std::string& temporary, const std::string& path) {
    while (fd_ < 0) {
      const int fd = open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
      if (fd < 0) return;  // the writer says why
      const bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
      if (!taken && is_at(fd, temporary)) {
        fd_ = fd;
        return;
      }
      close(fd);
      if (taken) fail("cannot write {}: another process is writing it; wait for that", path);
    }
  }
  ~TemporaryLock() {
    if (fd_ >= 0) close(fd_);
  }
  TemporaryLock(const TemporaryLock&) = delete;
  TemporaryLock& operator=(const TemporaryLock&) = delete;

 private:
  // Whether it was not renamed meanwhile, as its writer was done.
  static bool is_at(int fd, const std::string& temporary) {
    struct stat open_file {
    }, named{};
    return fstat(fd, &open_file) == 0 && stat(temporary.c_str(), &named) == 0 &&
           open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
  }
  int fd_ = -1;
};

}  // namespace

std::string read_file(const std::string& path, uint64_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail("cannot open {}: {}", path, std::strerror(errno));
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    fail("cannot read {}: expected a regular file", path);
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > max_bytes) {
    close(fd);
    fail("cannot read {}: expected at most {} bytes, found {}", path, max_bytes, size);
  }
  std::string content(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, content.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      close(fd);
      fail("cannot read {}: {}", path, std::strerror(error));
    }
    if (n == 0) break;  // the file shrank while it was read
    done += static_cast<size_t>(n);
  }
  close(fd);
  content.resize(done);
  return content;
}

void write_file_atomic(const std::string& path, std::string_view content) {
  write_file_atomic(path, [&](FileWriter& writer) { writer.write(content); });
}

void write_file_atomic(const std::string& path, const std::function<void(FileWriter&)>& write) {
  const std::string temporary = path + ".tmp";
  const TemporaryLock lock(temporary, path);
  try {
    FileWriter writer(temporary);
    write(writer);
    writer.finish();
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    fail("cannot write {}: {}", path, std::strerror(error));
  }
  sync_directory(folder_of(path));
}

FileWriter::FileWriter(const std::string& path) : path_(path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("cannot write {}: {}", path, std::strerror(errno));
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) close(fd_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void FileWriter::write(std::string_view text) {
  if (buffer_.size() + text.size() > kBufferBytes) flush();
  if (text.size() > kBufferBytes) {
    write_all(fd_, text.data(), text.size(), path_);
  } else {
    buffer_.append(text);
  }
}

void FileWriter::flush() {
  write_all(fd_, buffer_.data(), buffer_.size(), path_);
  buffer_.clear();
}

void FileWriter::finish() {
  flush();
  if (fsync(fd_) != 0 && errno != EINVAL) fail("cannot write {}: {}", path_, std::strerror(errno));
  const int fd = fd_;
  fd_ = -1;
  if (close(fd) != 0) fail("cannot write {}: {}", path_, std::strerror(errno));
}

void sync_directory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);  // some file systems refuse it for folders; the rename itself is still atomic
  close(fd);
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path)) {
    fail("cannot create the folder {}: {}", path,
         error ? error.message() : "a file of that name is in the way");
  }
}

}  // namespace gpt
