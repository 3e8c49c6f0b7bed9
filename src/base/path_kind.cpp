#include "base/path_kind.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

// 0, or what stat says is wrong.
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
  if (error == ENOENT) fail("cannot read {}: a link that leads nowhere", path);
  if (error == ELOOP) fail("cannot read {}: a loop of links", path);
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
    fail("{} {} {}, which is read; choose another output", out,
         same || x == y    ? "is the same file as"
         : is_inside(x, y) ? "lies inside"
                           : "contains",
         input);
  }
}

}  // namespace gpt
