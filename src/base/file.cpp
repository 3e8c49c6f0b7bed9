#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = size_t{1} << 20;

std::string folder_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Follows links and returns the target, which need not exist. Returns paths that are not links unchanged.
std::string followed(const std::string& path) {
  constexpr int kMostLinks = 40;  // the limit of the Linux kernel
  fs::path target = path;
  std::error_code error;
  for (int n = 0; fs::is_symlink(target, error); ++n) {
    const fs::path next = fs::read_symlink(target, error);
    if (error || n == kMostLinks) fail("cannot write {}: it is a broken symbolic link", path);
    target = target.parent_path() / next;
  }
  return target.string();
}

bool is_device(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

void write_all(int fd, const char* data, size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      fail("cannot write {}: {}; free some space or choose a different location", path,
           n < 0 ? std::strerror(errno) : "no space left");
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
}

// Determines the kind of a path with stat. Returns 0, or the errno of stat.
int kind_of(const std::string& path, PathKind& kind) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) {
    kind = S_ISREG(info.st_mode)   ? PathKind::file
           : S_ISDIR(info.st_mode) ? PathKind::folder
                                   : PathKind::other;
    return 0;
  }
  const int error = errno;
  struct stat link {};
  const bool absent = error == ENOTDIR || (error == ENOENT && lstat(path.c_str(), &link) != 0);
  kind = absent ? PathKind::nothing : PathKind::broken;
  return absent ? 0 : error;
}

PathKind known_kind(const std::string& path) {
  PathKind kind{};
  const int error = kind_of(path, kind);
  if (error == ENOENT) fail("cannot read {}: it is a broken symbolic link", path);
  if (error == ELOOP) fail("cannot read {}: it is part of a loop of symbolic links", path);
  if (error != 0) fail("cannot read {}: {}", path, std::strerror(error));
  return kind;
}

FileStamp stamp_of(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .bytes = static_cast<uint64_t>(info.st_size),
          .modified = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& final_path) : folder_(folder_of(final_path)) {
  constexpr size_t kLongest = 200;  // maximum length of a file name before the prefix and number are added
  prefix_ = "." + fs::path(final_path).filename().string().substr(0, kLongest) + ".tmp-";
  remove_stale();
  for (int n = 0; fd_ < 0; ++n) {
    path_ = fmt::format("{}/{}{}-{}", folder_, prefix_, getpid(), n);
    fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd_ < 0 && errno != EEXIST) fail("cannot write {}: {}", final_path, std::strerror(errno));
    if (fd_ >= 0 && !lock()) close(std::exchange(fd_, -1));
  }
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) unlink(path_.c_str());
  close(fd_);
}

void TemporaryFile::rename_to(const std::string& final_path) {
  if (rename(path_.c_str(), final_path.c_str()) != 0)
    fail("cannot write {}: {}", final_path, std::strerror(errno));
  path_.clear();
  sync_directory(folder_);
}

// Returns false if another writer removed the file before this writer locked it. An unlocked temporary file
// looks like a file that a killed writer left behind.
bool TemporaryFile::lock() const {
  struct stat info {};
  return (flock(fd_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && fstat(fd_, &info) == 0 &&
         info.st_nlink > 0;
}

void TemporaryFile::remove_stale() const {
  std::error_code error;
  for (fs::directory_iterator it(folder_, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (!it->path().filename().string().starts_with(prefix_)) continue;
    const int fd = open(it->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    struct stat info {};
    const bool dead = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (dead) unlink(it->path().c_str());
    close(fd);
  }
}

int open_regular_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) fail_not_found("cannot open {}: {}", path, std::strerror(ENOENT));
  if (fd < 0) fail("cannot open {}: {}", path, std::strerror(errno));
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  close(fd);
  fail("cannot read {}: expected a regular file", path);
}

std::string read_file(const std::string& path, uint64_t max_bytes) {
  const int fd = open_regular_file(path);
  const uint64_t size = file_stamp(fd).bytes;
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
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  close(fd);
  if (done < size)
    fail(
        "{}: the file changed while it was being read (had {} bytes, now {}); try again when no other "
        "program writes to it",
        path, size, done);
  return content;
}

void write_file_atomic(const std::string& path, std::string_view content) {
  write_file_atomic(path, [&](FileWriter& writer) { writer.write(content); });
}

void write_file_atomic(const std::string& path, const std::function<void(FileWriter&)>& write) {
  const std::string target = followed(path);
  if (is_device(target)) {  // for example /dev/stdout or a pipe, which cannot be replaced
    FileWriter writer(target);
    write(writer);
    return writer.finish();
  }
  TemporaryFile temporary(target);
  FileWriter writer(temporary.path());
  write(writer);
  writer.finish();
  temporary.rename_to(target);
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
  fsync(fd);  // some file systems do not support fsync on folders; the rename is atomic anyway
  close(fd);
}

void make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) {
    fail("cannot create the folder {}: {}", path,
         error ? error.message() : "a file with this name already exists");
  }
}

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
      fail("cannot write {}: {}{}; free some space or choose a different location", path_,
           std::strerror(error), intact ? "" : " (its last record is incomplete)");
    }
    done += static_cast<size_t>(n);
  }
}

void AppendFile::sync() {
  if (fsync(fd_) != 0 && errno != EINVAL) fail("cannot write {}: {}", path_, std::strerror(errno));
}

std::optional<uint64_t> free_space(const std::string& folder) {
  struct statvfs info {};
  // Some file systems have no fixed size and report zero blocks.
  if (statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return {};
  const auto blocks = static_cast<uint64_t>(info.f_bavail), size = static_cast<uint64_t>(info.f_frsize);
  return size > 0 && blocks > UINT64_MAX / size ? UINT64_MAX : blocks * size;
}

void require_space(const std::string& folder, uint64_t bytes, const std::string& what) {
  const std::optional<uint64_t> free = free_space(folder);
  if (!free || *free >= bytes) return;
  const auto megabytes = [](uint64_t n) { return static_cast<double>(n) / 1e6; };
  fail(
      "cannot save {}: it needs {:.1f} MB, but the file system of {} has only {:.1f} MB free; free some "
      "space there",
      what, megabytes(bytes), folder, megabytes(*free));
}

PathKind path_kind(const std::string& path) {
  PathKind kind{};
  kind_of(path, kind);
  return kind;
}

bool path_exists(const std::string& path) {
  return known_kind(path) != PathKind::nothing;
}

bool is_folder(const std::string& path) {
  return known_kind(path) == PathKind::folder;
}

bool is_file(const std::string& path) {
  return known_kind(path) == PathKind::file;
}

std::vector<FolderEntry> list_folder(const std::string& path) {
  std::vector<FolderEntry> entries;
  std::error_code error;
  fs::directory_iterator it(path, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    entries.push_back(
        {it->path().filename().string(), path_kind(it->path().string()), it->is_symlink(ignored)});
  }
  if (error) fail("cannot read the folder {}: {}", path, error.message());
  std::ranges::sort(entries, {}, &FolderEntry::name);
  return entries;
}

uint64_t file_bytes(const std::string& path) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (error) fail("cannot read {}: {}", path, error.message());
  return size;
}

int64_t file_modified(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) fail("cannot read {}: {}", path, std::strerror(errno));
  return stamp_of(info).modified;
}

std::optional<FileStamp> file_stamp(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return stamp_of(info);
}

FileStamp file_stamp(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? stamp_of(info) : FileStamp{};
}

void remove_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) fail("cannot remove {}: {}", path, error.message());
}

std::string resolved_path(const std::string& path) {
  std::error_code error;
  fs::path p = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) p = fs::absolute(path, error).lexically_normal();  // a loop of links, or no permission
  if (!p.has_filename()) p = p.parent_path();
  return p.string();
}

bool paths_overlap(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error) && !error) return true;
  const fs::path x = resolved_path(a), y = resolved_path(b);
  return is_inside(x, y) || is_inside(y, x);
}

void refuse_overlap(const std::string& out, std::span<const std::string> inputs) {
  for (const std::string& input : inputs) {
    if (!paths_overlap(out, input)) continue;
    std::error_code error;
    const fs::path x = resolved_path(out), y = resolved_path(input);
    const bool same = fs::equivalent(out, input, error) && !error;
    fail("{} {} {}, which is an input; choose a different output", out,
         same || x == y    ? "is the same file as"
         : is_inside(x, y) ? "is inside"
                           : "contains",
         input);
  }
}

}  // namespace gpt
