#include "base/disk_space.h"

#include <sys/statvfs.h>

#include "base/error.h"

namespace gpt {

std::optional<uint64_t> free_space(const std::string& folder) {
  struct statvfs info {};
  // Some file systems have no size, and say that they have no blocks.
  if (statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return {};
  const auto blocks = static_cast<uint64_t>(info.f_bavail), size = static_cast<uint64_t>(info.f_frsize);
  return size > 0 && blocks > UINT64_MAX / size ? UINT64_MAX : blocks * size;
}

void require_space(const std::string& folder, uint64_t bytes, const std::string& what) {
  const std::optional<uint64_t> free = free_space(folder);
  if (!free || *free >= bytes) return;
  const auto megabytes = [](uint64_t n) { return static_cast<double>(n) / 1e6; };
  fail(
      "cannot save {}: it takes {:.1f} MB, and the file system of {} has {:.1f} MB left; free some space "
      "there",
      what, megabytes(bytes), folder, megabytes(*free));
}

}  // namespace gpt
