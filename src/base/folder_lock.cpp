#include "base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

// The first line of a lock file. The next four lines contain the process id, the host, the time and the
// command.
constexpr std::string_view kTitle = "gpt is at work here";
constexpr size_t kMaxBytes = 4096;
constexpr size_t kMaxCommand = 200;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string this_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words(std::istreambuf_iterator<char>(file), {});
  while (!words.empty() && words.back() == '\0')
    words.pop_back();
  for (char& c : words) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  return words.size() > kMaxCommand ? words.substr(0, kMaxCommand) + "..." : words;
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 64> text{};
  localtime_r(&now, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

std::string content_of(int fd) {
  std::string content(kMaxBytes, '\0');
  const ssize_t n = pread(fd, content.data(), content.size(), 0);
  content.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return content;
}

// Removes the first line from `text` and returns it.
std::string take_line(std::string& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string line = text.substr(0, end);
  text.erase(0, end + 1);
  return line;
}

[[noreturn]] void refuse(const std::string& locked, int fd) {
  std::string content = content_of(fd);
  close(fd);
  if (take_line(content) != kTitle)
    fail("{} is in use by another process; wait for it to finish or choose a different `out`", locked);
  const std::string process = take_line(content), host = take_line(content), time = take_line(content),
                    command = take_line(content);
  fail("{} is in use by process {}{} ({}), started {}; wait for it to finish or choose a different `out`",
       locked, process, host == host_name() ? "" : " on " + host, command, time);
}

// Returns true if the open file still has this path. The previous owner of the lock removes the lock file
// when it ends.
bool is_at(int fd, const std::string& path) {
  struct stat open_file {
  }, named{};
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named) == 0 && open_file.st_ino == named.st_ino &&
         open_file.st_dev == named.st_dev;
}

// Writes the owner's description into the lock file. If the disk is full, the description is missing, but the
// lock still works.
void write_owner(int fd) {
  const std::string content =
      fmt::format("{}\n{}\n{}\n{}\n{}\n", kTitle, getpid(), host_name(), local_time(), this_command());
  if (ftruncate(fd, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = pwrite(fd, content.data(), content.size(), 0);
}

int open_lock_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (fd < 0) fail("cannot write {}: {}", path, std::strerror(errno));
  struct stat info {};
  const std::string content = content_of(fd);
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (content.empty() || content.starts_with(kTitle)))
    return fd;
  close(fd);
  fail("{} is not a lock file of this program; remove it or choose a different `out`", path);
}

}  // namespace

FolderLock FolderLock::of_folder(const std::string& folder, const Note& note, bool is_new) {
  std::error_code error;
  is_new = is_new || !fs::exists(folder, error);
  make_directories(folder);
  return FolderLock(folder, (fs::path(folder) / ".lock").string(), is_new ? folder : "", note);
}

FolderLock FolderLock::of_file(const std::string& file, const Note& note) {
  const fs::path path(file);
  return FolderLock(file, (path.parent_path() / ("." + path.filename().string() + ".lock")).string(), "",
                    note);
}

FolderLock::FolderLock(const std::string& locked, std::string path, std::string made, const Note& note)
    : path_(std::move(path)), made_(std::move(made)) {
  while (fd_ < 0) {
    const int fd = open_lock_file(path_);
    const int error = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error == EWOULDBLOCK) refuse(locked, fd);
    if (error != 0 && error != EINTR) {
      note(fmt::format("note: cannot lock {} ({}); make sure that no other program writes to it\n", locked,
                       std::strerror(error)));
    }
    if (error == EINTR || (error == 0 && !is_at(fd, path_))) {
      close(fd);
    } else {
      fd_ = fd;
    }
  }
  write_owner(fd_);
}

FolderLock::~FolderLock() {
  unlink(path_.c_str());
  if (!made_.empty()) rmdir(made_.c_str());  // only if it is empty
  close(fd_);
}

}  // namespace gpt
